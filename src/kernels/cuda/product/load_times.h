// LoadTimes: times recordings on a GPU that is as hot as in a step.
//
// A GPU at its power limit lowers its clock within a tenth of a second. In a short burst on a cool GPU another
// algorithm may be the fastest than in a step, where one that draws less power gets a higher clock.
#pragma once
#include <cuda_runtime_api.h>

#include <chrono>
#include <optional>
#include <span>
#include <vector>

namespace weft::cuda {

class LoadTimes {
 public:
  explicit LoadTimes(cudaStream_t stream) : stream_(stream) {}

  // Returns the milliseconds of a replay of each recording. They run in turns, after replays of the first as load.
  // `burst_ms` has about how long a replay of each takes. Waits for the device.
  std::vector<float> Of(std::span<const cudaGraphExec_t> recordings, std::span<const float> burst_ms);

 private:
  double LoadMilliseconds() const;

  cudaStream_t stream_;
  std::optional<std::chrono::steady_clock::time_point> hot_;  // when the last load ended
};

}  // namespace weft::cuda
