// Matrix products by OpenBLAS, with the splits over threads made here.
#pragma once
#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "weft/core/runtime/kernel.h"

namespace weft::cpu {

// A matrix with one contiguous dim: element (i, j) is data[i * row + j * column], one of row and column being 1.
template <class C>
struct Matrix {
  C* data;
  int64_t row, column;
};

// c = a b, c row-major (column == 1). a [m, k], b [k, n], c [m, n]. On the calling thread, which has a place in
// GemmUse.
template <class C>
void Gemm(int64_t m, int64_t n, int64_t k, Matrix<const C> a, Matrix<const C> b, Matrix<C> c);

// Opens OpenBLAS, with the core that fits the processor; the first call counts. Not found: it is not installed. Call it
// before other threads start: it changes environment variables until OpenBLAS has read them.
absl::Status OpenGemm();
// The core of OpenBLAS that multiplies: "SkylakeX". Throws Error when OpenGemm fails.
std::string GemmCore();
// Why the core is not the one that OPENBLAS_CORETYPE asks for, on one line; empty when it is. Throws as GemmCore does.
std::string GemmNote();

}  // namespace weft::cpu
