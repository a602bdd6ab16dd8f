// ProductPlan: what becomes of an einsum on the GPU. Host code without CUDA, so that it is tested on any machine.
#pragma once
#include "weft/kernels/common/einsum_labels.h"
#include "weft/kernels/cuda/plan/product.h"

namespace weft::cuda {

// cuBLASLt multiplies operands as they lie where each group walks as one loop and one of a tensor's two is contiguous.
// Rows and columns of several loops give their outer ones to the batch if that is all it takes. Else operands, or the
// result, pass through dense copies in the workspace when the product is large; other products take the own kernels.
//
// The library is column-major and tensors are row-major, so it computes out^T = b^T a^T: its A is our b, its B our a,
// its m our n, and its D is `out` as it lies.
struct ProductPlan : EinsumLabels {
  enum class Route { kNothing, kOwn, kLibrary };

  explicit ProductPlan(const KernelCall& call);

  // Copies a tensor to its dense form, or from it.
  struct Copy {
    Nest loops{2};         // operands: to, from
    int64_t elements = 0;  // of the dense form; 0: the tensor is used as it lies
    explicit operator bool() const { return elements > 0; }
  };

  Route route;
  Product product;  // for kLibrary, as all that follows
  Nest repeats{3};  // of the product, beyond its batch; operands: out, a, b
  Copy a_copy, b_copy, out_copy;

  bool direct() const { return !a_copy && !b_copy && !out_copy; }

 private:
  Route Choose();
};

}  // namespace weft::cuda
