// Large matrix products of f32 by oneDNN, on processors with AVX-512.
#pragma once
#include <cstdint>

#include "weft/kernels/cpu/product/gemm.h"

namespace weft::cpu {

// Returns whether oneDNN multiplies matrices of these sizes faster than OpenBLAS does. Depends only on the sizes and
// the machine.
bool SuitsOneDnn(int64_t m, int64_t n, int64_t k);

// Computes c = a b as Gemm does. Strides must be those that BLAS takes, also of dims of extent 1.
void GemmF32(int64_t m, int64_t n, int64_t k, Matrix<const float> a, Matrix<const float> b, Matrix<float> c);

}  // namespace weft::cpu
