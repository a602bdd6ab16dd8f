// ProductCall: a product as cuBLASLt takes it.
#pragma once
#include <cuda_runtime_api.h>

#include "weft/kernels/cuda/plan/product.h"
#include "weft/kernels/cuda/product/algorithm_search.h"

namespace weft::cuda {

struct ProductMemory {
  const void *a, *b;
  // Null if the product has none. C may be D; `gelu` is what the derivative of GELU is taken at.
  const void *bias = nullptr, *c = nullptr, *gelu = nullptr;
  void* d;          // overwritten; its old values are not read
  void* workspace;  // aligned to 256 bytes
  size_t workspace_bytes;
};

class ProductCall {
 public:
  explicit ProductCall(const Product& product);

  // Returns the algorithms that the library's heuristic names for the memory's alignment and workspace, at most 8.
  std::vector<Algorithm> Named(cublasLtHandle_t library, const ProductMemory& memory);
  // Issues the product.
  cublasStatus_t Launch(cublasLtHandle_t library, const ProductMemory& memory, const Algorithm& algorithm,
                        cudaStream_t stream);
  const Product& product() const { return product_; }
  // The product with this memory. Valid as long as this call.
  Problem Described(cublasLtHandle_t library, const ProductMemory& memory) {
    Point(memory);
    return {library, &operation_, &a_, &b_, &d_, memory.workspace_bytes};
  }

 private:
  void Point(const ProductMemory& memory);

  Product product_;
  cublasLtMatmulDescOpaque_t operation_;
  cublasLtMatrixLayoutOpaque_t a_, b_, d_;
};

// Returns the largest power of two up to 16 that divides the address. The library gains nothing from a larger one.
int64_t AlignmentOf(const void* data);

}  // namespace weft::cuda
