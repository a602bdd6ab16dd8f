// Matrix products by OpenBLAS, large ones of f32 by oneDNN. Weft, not the libraries, splits them over threads.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "weft/core/runtime/kernel.h"

namespace weft::cpu {

// A matrix with one contiguous dim. Element (i, j) is data[i * row + j * column], and row or column is 1.
template <class C>
struct Matrix {
  C* data;
  int64_t row, column;
};

// Computes c = a b with a [m, k], b [k, n] and row-major c [m, n] (c.column == 1). Runs on the calling thread, which
// must be counted in a GemmUse.
template <class C>
void Gemm(int64_t m, int64_t n, int64_t k, Matrix<const C> a, Matrix<const C> b, Matrix<C> c);

// Opens OpenBLAS with the core that fits the processor. Only the first call opens it; later calls return the same
// status. Call it before other threads start, because it changes environment variables until OpenBLAS has read them.
// Returns NotFound if OpenBLAS is not installed.
absl::Status OpenGemm();
// Returns the OpenBLAS core in use, for example "SkylakeX". Throws Error if OpenGemm fails.
std::string GemmCore();
// Returns one line that explains why the core is not the one that OPENBLAS_CORETYPE requests, or an empty string if it
// is. Throws as GemmCore does.
std::string GemmNote();

}  // namespace weft::cpu
