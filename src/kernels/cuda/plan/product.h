// Product: one matrix product as cuBLASLt sees it. Host code without CUDA, so that plans can be tested on any machine.
#pragma once
#include <array>
#include <cstddef>
#include <cstdint>

#include "weft/core/base/dtype.h"

namespace weft::cuda {

// D[m, n] = op(A)[m, k] op(B)[k, n] (+ bias[m] + C[m, n]). All matrices are column-major: element (i, j) lies at i + j
// * ld. A transposed operand is stored as its transpose, so k is innermost in a transposed A and n in a transposed B.
// `batch` such products lie `stride_*` elements apart. A stride of 0 gives all of them the same operand.
struct Product {
  DType dtype = DType::kF32;  // dtype of A and B
  bool wide = false;          // D has the accumulate type instead of dtype
  bool tf32 = false;          // f32 may be rounded to TF32 before it is multiplied
  bool bias = false;          // a vector of m elements of D's type is added to every column of D
  bool accumulate = false;    // C, with the layout of D, is added
  bool gelu_grad = false;     // D is multiplied by the derivative of GELU at a matrix with its layout; D is in 16 bits
  bool transpose_a = false, transpose_b = false;
  int64_t m = 0, n = 0, k = 0;
  int64_t lda = 0, ldb = 0, ldd = 0;
  int64_t batch = 1, stride_a = 0, stride_b = 0, stride_d = 0;
  bool operator==(const Product&) const = default;
};

inline DType ResultType(const Product& p) { return p.wide ? AccumulateType(p.dtype) : p.dtype; }

// Everything that determines the algorithm: the product, the alignment of A, B and D in bytes, and the bytes of
// workspace.
using ProductKey = std::array<int64_t, 22>;
inline ProductKey KeyOf(const Product& p, int64_t align_a, int64_t align_b, int64_t align_d, size_t workspace) {
  return {int64_t(p.dtype),  p.wide,     p.tf32,     p.bias,     p.accumulate, p.gelu_grad, p.transpose_a,
          p.transpose_b,     p.m,        p.n,        p.k,        p.lda,        p.ldb,       p.ldd,
          p.batch,           p.stride_a, p.stride_b, p.stride_d, align_a,      align_b,     align_d,
          int64_t(workspace)};
}

}  // namespace weft::cuda
