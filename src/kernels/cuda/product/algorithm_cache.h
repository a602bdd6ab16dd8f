// AlgorithmCache: runs matrix products by cuBLASLt, each by the algorithm that was fastest when it was first seen.
//
// The first run of a large product times the library's best guesses on the device, as steps run them: in a recording.
// What is chosen stays in memory and in a file (algorithm_file.h). WEFT_TUNE=0 in the environment takes the first guess
// instead, and neither reads nor writes the file. Results have the same bits on every run of one algorithm: split sums
// are added in a fixed order.
#pragma once
#include <cublasLt.h>
#include <cuda_runtime_api.h>

#include <optional>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/product/algorithm_file.h"

namespace weft::cuda {

class AlgorithmCache {
 public:
  // Kept by the device.
  explicit AlgorithmCache(CudaDevice& device);
  ~AlgorithmCache();
  AlgorithmCache(const AlgorithmCache&) = delete;
  AlgorithmCache& operator=(const AlgorithmCache&) = delete;

  struct Memory {
    const void *a, *b;
    const void *bias = nullptr, *c = nullptr;  // where the product has them; C may be D
    void* d;                                   // overwritten; its old values are not read
    void* workspace;                           // at a multiple of 256
    size_t workspace_bytes;
  };
  // Issues the product to the stream. False where the library has no algorithm for it: then nothing was issued.
  bool Run(const Product& product, const Memory& memory);

 private:
  // What a call needs, made once per key.
  struct Entry {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, d;
    bool is_f64, accumulate, bias;
    cublasLtMatmulAlgo_t algorithm;
    bool usable = false;   // there is an algorithm
    bool settled = false;  // false: new, or chosen during a capture and to be timed after it
  };
  using Guesses = std::vector<cublasLtMatmulAlgo_t>;

  Entry MakeEntry(const Product& product) const;
  void Choose(Entry& entry, const Product& product, const ProductKey& key, const Memory& memory);
  Guesses Ask(Entry& entry, const Memory& memory) const;
  bool Recall(Entry& entry, const ProductKey& key, const Memory& memory);
  void Tune(Entry& entry, const Product& product, const ProductKey& key, const Guesses& guesses, Memory memory);
  float Time(Entry& entry, const Memory& memory, float best);
  float TimeRecorded(Entry& entry, const Memory& memory, int launches);
  float Elapsed(absl::FunctionRef<void()> issue);
  cublasLtMatmulAlgo_t Fastest(Entry& entry, const Guesses& guesses, const Memory& memory);
  cublasStatus_t Launch(Entry& entry, const Memory& memory) const;
  bool Capturing() const;

  cublasLtHandle_t blas_;
  cudaStream_t stream_;
  bool tune_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  AlgorithmFile file_;
  std::optional<AlgorithmMap> known_;  // of the file, read when first needed
  absl::node_hash_map<ProductKey, Entry> entries_;
};

}  // namespace weft::cuda
