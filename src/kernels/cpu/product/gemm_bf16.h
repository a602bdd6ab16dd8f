// Matrix products of bf16 by oneDNN, where the machine multiplies bf16 itself (AVX-512 BF16 or AMX).
#pragma once
#include "weft/core/base/dtype.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft::cpu {

// False: widen to f32 instead. Depends on the machine only.
bool HasBf16Gemm();

// c = a b with f32 accumulation, c row-major of BF16 or float. One thread; keeps its primitives per thread.
template <class Out>
void GemmBf16(int64_t m, int64_t n, int64_t k, Matrix<const BF16> a, Matrix<const BF16> b, Matrix<Out> c);

}  // namespace weft::cpu
