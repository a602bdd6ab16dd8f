// OpenBLAS as a library that is opened at run time. OpenBLAS reads OPENBLAS_CORETYPE while it is loaded, so a program
// that links it cannot choose the core (gemm_core.h).
#pragma once
#include <cblas.h>

#include <string>

#include "absl/status/statusor.h"

namespace weft::cpu {

struct OpenBlas {
  decltype(&cblas_sgemm) sgemm;
  decltype(&cblas_dgemm) dgemm;
  decltype(&cblas_sgemv) sgemv;
  decltype(&cblas_dgemv) dgemv;
  decltype(&openblas_set_num_threads) set_num_threads;
  decltype(&openblas_get_corename) corename;
  // The pool from which a running product takes a buffer. take_buffer maps another buffer when all are in use, and
  // never returns if it cannot. take_buffer is null in a build that does not export the two functions.
  void* (*take_buffer)(int);
  void (*return_buffer)(void*);
  std::string note;  // see CoreChoice
};

// The first call opens the library, limited to one thread, for the life of the process. Meanwhile it changes OPENBLAS_*
// in the environment, so no other thread may read the environment. Returns NotFound if the library is missing or lacks
// a function; the message names the package.
const absl::StatusOr<OpenBlas>& LoadedOpenBlas();

}  // namespace weft::cpu
