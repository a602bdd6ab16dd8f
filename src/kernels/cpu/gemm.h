// Matrix products by OpenBLAS, with the splits over threads made here.
#pragma once
#include <cstdint>
#include <string>

#include "core/ops/kernel.h"

namespace weft::cpu {

// A matrix with one contiguous dim: element (i, j) is data[i * row + j * column], one of row and column being 1.
template <class C>
struct Matrix {
  C* data;
  int64_t row, column;
};

// c = a b, c row-major (column == 1). a [m, k], b [k, n], c [m, n]. One thread.
template <class C>
void Gemm(int64_t m, int64_t n, int64_t k, Matrix<const C> a, Matrix<const C> b, Matrix<C> c);

// The processor that OpenBLAS has chosen its kernels for: "SkylakeX".
std::string GemmCore();

// OpenBLAS's own threads would fight with ours, and with those of other ranks in the process.
void UseOneGemmThread();

}  // namespace weft::cpu
