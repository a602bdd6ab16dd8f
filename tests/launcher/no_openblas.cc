// A library with OpenBLAS's name and none of its functions.
extern "C" int no_openblas() { return 0; }
