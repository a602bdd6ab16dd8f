// AlgorithmCache: runs matrix products by cuBLASLt, each with the algorithm that was fastest when the product was first
// run.
//
// The first run of a large product times the library's best candidates on the device (algorithm_times.h). The choice is
// kept in memory and in a file (algorithm_file.h). With WEFT_TUNE=settled in the environment candidates are compared
// under load, and more of them than the library names. With WEFT_TUNE=0 the first candidate is taken, and the file is
// neither read nor written. One algorithm gives the same bits on every run, because split sums are added in a fixed
// order.
#pragma once
#include <optional>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "weft/kernels/cuda/device/blas.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/product/algorithm_file.h"
#include "weft/kernels/cuda/product/algorithm_times.h"
#include "weft/kernels/cuda/product/product_call.h"

namespace weft::cuda {

class AlgorithmCache {
 public:
  // Created by CudaDevice::Kept.
  explicit AlgorithmCache(CudaDevice& device);
  AlgorithmCache(const AlgorithmCache&) = delete;
  AlgorithmCache& operator=(const AlgorithmCache&) = delete;

  // Issues the product to the stream. Returns false, and issues nothing, if the library has no algorithm for it.
  bool Run(const Product& product, const ProductMemory& memory);

 private:
  // The state of a call, created once per key.
  struct Entry {
    explicit Entry(const Product& product) : call(product) {}
    ProductCall call;
    Algorithm algorithm = {};
    bool usable = false;   // whether there is an algorithm
    bool settled = false;  // false: new, or chosen during a capture and still to be timed
  };

  void Choose(Entry& entry, const Product& product, const ProductKey& key, const ProductMemory& memory);
  bool Recall(Entry& entry, const ProductKey& key, const ProductMemory& memory);
  void Tune(Entry& entry, const Product& product, const ProductKey& key, const std::vector<Algorithm>& named,
            ProductMemory memory);
  bool Capturing() const;

  CudaDevice& device_;
  cudaStream_t stream_;
  bool tune_;
  AlgorithmTimes times_;
  AlgorithmFile file_;
  std::chrono::milliseconds patience_ = CacheFile::Lock::kLongestWait;  // with which it waits for the file's lock
  std::optional<AlgorithmMap> known_;                                   // the content of the file, read on first use
  absl::node_hash_map<ProductKey, Entry> entries_;
};

}  // namespace weft::cuda
