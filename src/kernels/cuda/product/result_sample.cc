#include "weft/kernels/cuda/product/result_sample.h"

#include <algorithm>
#include <cmath>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr int64_t kColumns = 16;

// Sums in another order may round to a neighbour, which is 2^-7 of a value apart in bf16; a product in TF32 has 10
// bits.
double ToleranceOf(DType dtype) {
  if (dtype == DType::kF64) return 1e-9;
  return SizeOf(dtype) == 2 ? 0x1p-6 : 0x1p-9;
}

}  // namespace

ResultSample::ResultSample(const Product& p, const void* d, cudaStream_t stream)
    : tolerance_(ToleranceOf(ResultType(p))) {
  int64_t columns = p.batch * p.n, wanted = std::min(kColumns, columns);
  size_t element = SizeOf(ResultType(p)), bytes = size_t(p.m) * element;
  std::vector<char> copied(bytes * size_t(wanted));
  for (int64_t i = 0; i < wanted; i++) {
    int64_t column = wanted == 1 ? 0 : i * (columns - 1) / (wanted - 1);
    int64_t at = column / p.n * p.stride_d + column % p.n * p.ldd;
    WEFT_CUDA(cudaMemcpyAsync(copied.data() + size_t(i) * bytes, static_cast<const char*>(d) + at * int64_t(element),
                              bytes, cudaMemcpyDeviceToHost, stream));
  }
  WEFT_CUDA(cudaStreamSynchronize(stream));
  DispatchFloating(ResultType(p), [&](auto zero) {
    const auto* values = reinterpret_cast<const decltype(zero)*>(copied.data());
    for (int64_t i = 0; i < wanted * p.m; i++)
      values_.push_back(double(typename ComputeOf<decltype(zero)>::type(values[i])));
  });
}

bool ResultSample::Agrees(const ResultSample& other) const {
  double largest = 0;
  for (double v : other.values_)
    if (std::isfinite(v)) largest = std::max(largest, std::abs(v));
  return std::ranges::equal(values_, other.values_, [&](double a, double b) {
    return a == b || (std::isnan(a) && std::isnan(b)) || std::abs(a - b) <= tolerance_ * largest;
  });
}

}  // namespace weft::cuda
