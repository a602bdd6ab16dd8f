// AlgorithmCache: runs matrix products by cuBLASLt, each with the algorithm that was fastest when the product was first
// run.
//
// The first run of a large product times the library's best candidates on the device, in a recording, which is how
// training steps run them. With WEFT_TUNE=settled in the environment it then compares the fastest of them under load
// (load_times.h). The choice is kept in memory and in a file (algorithm_file.h). With WEFT_TUNE=0 the first candidate
// is taken, and the file is neither read nor written. One algorithm gives the same bits on every run, because split
// sums are added in a fixed order.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/container/node_hash_map.h"
#include "absl/functional/function_ref.h"
#include "weft/kernels/cuda/device/blas.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/product/algorithm_file.h"
#include "weft/kernels/cuda/product/load_times.h"

namespace weft::cuda {

class AlgorithmCache {
 public:
  // Created by CudaDevice::Kept.
  explicit AlgorithmCache(CudaDevice& device);
  ~AlgorithmCache();
  AlgorithmCache(const AlgorithmCache&) = delete;
  AlgorithmCache& operator=(const AlgorithmCache&) = delete;

  struct Memory {
    const void *a, *b;
    const void *bias = nullptr, *c = nullptr;  // null if the product has none; C may be D
    void* d;                                   // overwritten; its old values are not read
    void* workspace;                           // aligned to 256 bytes
    size_t workspace_bytes;
  };
  // Issues the product to the stream. Returns false, and issues nothing, if the library has no algorithm for it.
  bool Run(const Product& product, const Memory& memory);

 private:
  // The state of a call, created once per key.
  struct Entry {
    cublasLtMatmulDescOpaque_t operation;
    cublasLtMatrixLayoutOpaque_t a, b, d;
    bool is_f64, accumulate, bias;
    cublasLtMatmulAlgo_t algorithm;
    bool usable = false;   // whether there is an algorithm
    bool settled = false;  // false: new, or chosen during a capture and still to be timed
  };
  using Guesses = std::vector<cublasLtMatmulAlgo_t>;
  struct Timed {
    cublasLtMatmulAlgo_t algorithm;
    float ms;  // of a launch
  };
  struct DestroyRecording {
    void operator()(cudaGraphExec_t recording) const { cudaGraphExecDestroy(recording); }
  };
  using Recording = std::unique_ptr<CUgraphExec_st, DestroyRecording>;

  Entry MakeEntry(const Product& product) const;
  void Choose(Entry& entry, const Product& product, const ProductKey& key, const Memory& memory);
  Guesses Ask(Entry& entry, const Memory& memory) const;
  bool Recall(Entry& entry, const ProductKey& key, const Memory& memory);
  void Tune(Entry& entry, const Product& product, const ProductKey& key, const Guesses& guesses, Memory memory);
  float Time(Entry& entry, const Memory& memory, float best);
  float TimeRecorded(Entry& entry, const Memory& memory, float once);
  Recording Record(Entry& entry, const Memory& memory, int launches);
  float Elapsed(absl::FunctionRef<void()> issue);
  cublasLtMatmulAlgo_t Fastest(Entry& entry, const Guesses& guesses, const Memory& memory);
  cublasLtMatmulAlgo_t FastestUnderLoad(Entry& entry, const std::vector<Timed>& close, const Memory& memory);
  cublasStatus_t Launch(Entry& entry, const Memory& memory) const;
  bool Capturing() const;

  CudaDevice& device_;
  cublasLtHandle_t blas_;
  cudaStream_t stream_;
  bool tune_, under_load_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  LoadTimes load_times_;
  AlgorithmFile file_;
  std::optional<AlgorithmMap> known_;  // the content of the file, read on first use
  absl::node_hash_map<ProductKey, Entry> entries_;
};

}  // namespace weft::cuda
