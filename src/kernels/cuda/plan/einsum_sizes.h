// The workspaces of einsum and linear, and how Weft's own kernels split long sums. Host code without CUDA.
#pragma once
#include <array>

#include "weft/core/ops/linear_activations.h"
#include "weft/kernels/cuda/plan/product_plan.h"

namespace weft::cuda {

inline constexpr size_t kProductAlign = 256;  // alignment that cuBLASLt requires of its workspace
inline size_t ProductAligned(size_t bytes) { return size_t(RoundUp(int64_t(bytes), kProductAlign)); }

// Returns the bytes of workspace that cuBLASLt may use for itself.
size_t LibraryBytes(const ProductPlan& plan);
inline size_t ResultBytes(const Product& p) { return SizeOf(ResultType(p)); }  // per element

// The workspace of a product by cuBLASLt. The library's own part comes first, then the copies.
struct ProductWorkspace {
  size_t a, b, out, bytes;  // offsets of the copies, from the first multiple of kProductAlign; total bytes

  explicit ProductWorkspace(const ProductPlan& plan);
};

// Returns whether neighbours along a loop share a line of memory.
inline bool Contiguous(int64_t stride) { return stride == 0 || stride == 1; }

// Returns whether Weft's own kernels compute the product by tiles, which need no workspace. Such products have enough
// rows and columns; all others are computed by sums.
bool IsTiled(const EinsumLabels& x);

inline constexpr int kSumThreads = 256;
// How the sums are split. It depends only on shape and strides, because plans are made without a GPU and all GPUs must
// add in the same order.
struct SumCut {
  int outputs, splits;
  bool terms_fast;

  explicit SumCut(const EinsumLabels& x);
};
// Returns the bytes of the partial sums of all outputs; 0 if there is one split.
size_t PartBytes(const KernelCall& call, const EinsumLabels& x, const SumCut& cut);

// The activation that a linear op applies to the sum of its product and bias.
enum class Activation : uint8_t {
  kNone,
#define WEFT_ENUM(Name) k##Name,
  WEFT_LINEAR_ACTIVATIONS(WEFT_ENUM)
#undef WEFT_ENUM
};

// A linear op: its product, and the operands to add to it.
struct LinearCall {
  const TensorView *bias = nullptr, *residual = nullptr;
  Activation activation = Activation::kNone;
  std::array<TensorView, 2> in;
  KernelCall product;  // the einsum

  explicit LinearCall(const KernelCall& call);
  LinearCall(const LinearCall&) = delete;
};

// Returns the einsum of linear_gelu_grad, into its result.
KernelCall ProductOfGeluGrad(const KernelCall& call);

size_t EinsumWorkspace(const KernelCall& call);
size_t LinearWorkspace(const KernelCall& call);
size_t LinearGeluGradWorkspace(const KernelCall& call);

}  // namespace weft::cuda
