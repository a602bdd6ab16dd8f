// ResultSample: some columns of a product's result, to see whether two algorithms compute the same.
//   ResultSample want(product, d, stream);   // after a launch
//   if (!ResultSample(product, d, stream).Agrees(want)) ...
#pragma once
#include <cuda_runtime_api.h>

#include <vector>

#include "weft/kernels/cuda/plan/product.h"

namespace weft::cuda {

class ResultSample {
 public:
  // Copies the first and the last column of the result `d`, and columns between them. Waits for the stream.
  ResultSample(const Product& product, const void* d, cudaStream_t stream);

  // Whether the values differ by no more than sums in another order do.
  bool Agrees(const ResultSample& other) const;

 private:
  std::vector<double> values_;
  double tolerance_;  // relative to the largest value
};

}  // namespace weft::cuda
