// ProductPlan: how an einsum runs on the GPU. Host code without CUDA, so that it can be tested on any machine.
#pragma once
#include "weft/kernels/common/einsum_labels.h"
#include "weft/kernels/cuda/plan/product.h"

namespace weft::cuda {

inline constexpr int kMostFewRows = 8;  // of Route::kFewRows

// cuBLASLt reads an operand in place if each of its groups walks as one loop and one of its two groups is contiguous.
// If rows or columns have several loops, their outer loops move to the batch, provided that this suffices. Otherwise a
// large product passes operands, or the result, through dense copies in the workspace. All other products take Weft's
// own kernels.
//
// The library is column-major and tensors are row-major, so it computes out^T = b^T a^T: its A is our b, its B our a,
// its m our n, and its D is `out` in place.
struct ProductPlan : EinsumLabels {
  // kFewRows: a matrix times at most kMostFewRows rows, for which product/few_rows.cu reads the matrix once.
  enum class Route { kNothing, kOwn, kLibrary, kFewRows };

  explicit ProductPlan(const KernelCall& call);

  // Copies a tensor to or from its dense form.
  struct Copy {
    Nest loops{2};         // operands: to, from
    int64_t elements = 0;  // of the dense form; 0 if the tensor is used in place
    explicit operator bool() const { return elements > 0; }
  };

  Route route;
  Product product;  // set only for kLibrary and kFewRows, like everything below
  Nest repeats{3};  // loops over the product beyond its batch; operands: out, a, b
  Copy a_copy, b_copy, out_copy;

  bool direct() const { return !a_copy && !b_copy && !out_copy; }

 private:
  Route Choose();
};

}  // namespace weft::cuda
