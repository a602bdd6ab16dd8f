#include "mpi_run.h"

int main(int argc, char** argv) { return weft::test::RunUnderMpi(argc, argv); }
