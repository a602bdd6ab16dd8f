// Linked into sanitized programs that run under MPI. MPI_Finalize unloads MPI's plugins before the leak check, so a
// leak of a plugin could no longer be matched by name (tests/lsan.supp). This dlclose keeps all libraries loaded.
extern "C" __attribute__((visibility("default"))) int dlclose(void*) { return 0; }
