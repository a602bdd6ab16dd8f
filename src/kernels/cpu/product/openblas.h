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
  decltype(&openblas_set_num_threads) set_num_threads;
  decltype(&openblas_get_corename) corename;
  // The pool that a product takes a buffer from while it runs. Maps another buffer when all are in use, and never
  // returns when it cannot. Null in a build that does not export them.
  void* (*take_buffer)(int);
  void (*return_buffer)(void*);
  std::string note;  // see CoreChoice
};

// The first call opens the library, for as long as the process lives, with one thread of its own. While it does so it
// changes OPENBLAS_* in the environment, so no other thread should read the environment. Not found: the library is not
// there or lacks a function; the message names the package.
const absl::StatusOr<OpenBlas>& LoadedOpenBlas();

}  // namespace weft::cpu
