// Products of few rows: one to eight tokens times a weight matrix, which take as long as reading the matrix once. The
// library computes them by tiles of 64 rows or more, often in two launches.
#pragma once
#include <span>

#include "weft/kernels/cuda/plan/einsum_sizes.h"

namespace weft::cuda {

// out[i, j] = activation(sum over k of a[i, k] b[k, j], + bias[j]) + residual[i, j], in f32. The element of a matrix in
// row i and column j lies at i * ld + j. All operands have the dtype of a, and out, bias and residual have f32 if
// `wide`.
struct FewRowsJob {
  const void *a, *b, *bias = nullptr, *residual = nullptr;  // bias, residual: null if there is none
  void* out;
  int64_t lda, ldb, ldd;     // ldd: of out and residual
  int rows, columns, terms;  // extents of i, j and k
  DType dtype;
  bool k_inner;  // b is stored as its transpose: b[k, j] lies at j * ldb + k
  bool wide = false;
  Activation activation = Activation::kNone;
  bool constant = false;  // b and bias may be read before the previous kernel has ended (core/passes/fuse.h)
};

// Runs all jobs in as few launches as possible. No job may write what another one reads or writes. The bits of a row
// depend neither on the other rows nor on the other jobs.
void RunFewRows(const KernelCall& call, std::span<const FewRowsJob> jobs);

}  // namespace weft::cuda
