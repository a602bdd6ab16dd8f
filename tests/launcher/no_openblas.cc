// A library with the name of OpenBLAS and none of its functions.
extern "C" int no_openblas() { return 0; }
