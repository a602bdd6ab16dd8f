// The workspaces of einsum and linear, and how the own kernels cut long sums. Host code without CUDA.
#pragma once
#include <array>

#include "weft/kernels/cuda/plan/product_plan.h"

namespace weft::cuda {

inline constexpr size_t kProductAlign = 256;  // what cuBLASLt asks of its workspace
inline size_t ProductAligned(size_t bytes) { return size_t(RoundUp(int64_t(bytes), kProductAlign)); }

// What the library may use for itself.
size_t LibraryBytes(const ProductPlan& plan);
size_t ResultBytes(const Product& p);  // of an element

// The workspace of a product by the library, in the order in which it is handed out.
struct ProductWorkspace {
  size_t a, b, out, bytes;  // where the copies start, from the first multiple of kProductAlign

  explicit ProductWorkspace(const ProductPlan& plan);
};

// Whether neighbours along a loop share a line of memory.
inline bool Contiguous(int64_t stride) { return stride == 0 || stride == 1; }

// The own kernels: products with rows and columns go by tiles, which need no workspace, and all else by sums.
bool IsTiled(const EinsumLabels& x);

inline constexpr int kSumThreads = 256;
// How the sums are cut, by the shape alone: plans are made without a GPU, and all GPUs add in the same order.
struct SumCut {
  int outputs, splits;
  bool terms_fast;

  explicit SumCut(const EinsumLabels& x);
};
// What the splits of all outputs take; 0 where there is one split.
size_t PartBytes(const KernelCall& call, const EinsumLabels& x, const SumCut& cut);

// A linear op: the product, and which operands are to be added to it.
struct LinearCall {
  const TensorView *bias = nullptr, *residual = nullptr;
  std::array<TensorView, 2> in;
  KernelCall product;  // the einsum

  explicit LinearCall(const KernelCall& call);
  LinearCall(const LinearCall&) = delete;
};

size_t EinsumWorkspace(const KernelCall& call);
size_t LinearWorkspace(const KernelCall& call);

}  // namespace weft::cuda
