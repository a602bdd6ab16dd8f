// AlgorithmTimes: finds the fastest algorithm of a product on the device.
//
// Algorithms run in recordings, which is how training steps run them: each in bursts on a GPU that is not hot. Under
// load the fastest of these are compared at the clocks of a step (load_times.h), and algorithms that the library does
// not name take part too (algorithm_search.h), if they compute the same.
#pragma once
#include <cuda_runtime_api.h>

#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/kernels/cuda/product/load_times.h"
#include "weft/kernels/cuda/product/product_call.h"
#include "weft/kernels/cuda/product/result_sample.h"

namespace weft::cuda {

class AlgorithmTimes {
 public:
  AlgorithmTimes(cublasLtHandle_t library, cudaStream_t stream, bool under_load);
  ~AlgorithmTimes();
  AlgorithmTimes(const AlgorithmTimes&) = delete;
  AlgorithmTimes& operator=(const AlgorithmTimes&) = delete;

  bool under_load() const { return under_load_; }

  // Returns the fastest algorithm for the product on the memory, or none if all fail. `named` are those that the
  // library names. Overwrites D, and waits for the device.
  std::optional<Algorithm> Fastest(ProductCall& call, const ProductMemory& memory, std::span<const Algorithm> named);

 private:
  struct Timed {
    Algorithm algorithm;
    float ms;  // of a launch
    bool named;
  };
  struct DestroyRecording {
    void operator()(cudaGraphExec_t recording) const { cudaGraphExecDestroy(recording); }
  };
  using Recording = std::unique_ptr<CUgraphExec_st, DestroyRecording>;

  // A product while its algorithms are timed.
  struct Race {
    ProductCall& call;
    const ProductMemory& memory;
    std::vector<Timed> timed = {};
    float best;          // the least time in bursts
    float slowdown = 1;  // how much slower the GPU has become since the first burst
    size_t tried = 0;
    std::optional<ResultSample> expected = std::nullopt;  // of the best named algorithm
  };

  void Try(Race& race, const Algorithm& algorithm, bool named);
  void TryOthers(Race& race, std::span<const Algorithm> named);
  void TryFor(Race& race, const std::vector<Algorithm>& algorithms, double seconds);
  std::vector<Timed> Finalists(Race& race);
  bool IsSame(Race& race, const Algorithm& algorithm, const Algorithm& named);
  Algorithm FastestUnderLoad(Race& race);
  float Time(Race& race, const Algorithm& algorithm);
  float TimeRecorded(Race& race, const Algorithm& algorithm, float once);
  Recording Record(Race& race, const Algorithm& algorithm, int launches);
  float Elapsed(absl::FunctionRef<void()> issue);
  cublasStatus_t Launch(Race& race, const Algorithm& algorithm) {
    return race.call.Launch(library_, race.memory, algorithm, stream_);
  }

  cublasLtHandle_t library_;
  cudaStream_t stream_;
  bool under_load_;
  cudaEvent_t start_ = nullptr, stop_ = nullptr;
  LoadTimes load_times_;
};

}  // namespace weft::cuda
