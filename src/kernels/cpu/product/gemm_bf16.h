// Matrix products of bf16 by oneDNN, on processors that multiply bf16 natively (AVX-512 BF16 or AMX).
#pragma once
#include "weft/core/base/dtype.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft::cpu {

// Returns whether GemmBf16 can be used. If not, widen to f32. Depends only on the machine.
bool HasBf16Gemm();

// Computes c = a b with f32 accumulation. c is row-major, of BF16 or float. Runs on the calling thread and keeps its
// oneDNN primitives per thread.
template <class Out>
void GemmBf16(int64_t m, int64_t n, int64_t k, Matrix<const BF16> a, Matrix<const BF16> b, Matrix<Out> c);

}  // namespace weft::cpu
