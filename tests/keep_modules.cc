// Linked into sanitized programs that run under MPI. MPI_Finalize unloads MPI's plugins before leaks are looked for,
// and what a plugin leaked can then no longer be told by name (tests/lsan.supp): so nothing is unloaded.
extern "C" __attribute__((visibility("default"))) int dlclose(void*) { return 0; }
