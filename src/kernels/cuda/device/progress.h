// CudaProgress: numbers of calls that advance in the order of a stream and that the host reads without waiting. A
// kernel of one thread adds to the numbers in GPU memory and stores the sums in host memory. It takes 2 us
// (tests/bench/ladder, progress), so in a recording it runs on a branch, and nothing waits for it.
#pragma once
#include <cuda_runtime_api.h>

#include "weft/core/runtime/streams.h"

namespace weft::cuda {

class CudaDevice;

class CudaProgress final : public StreamedDevice::Progress {
 public:
  explicit CudaProgress(CudaDevice& device);
  ~CudaProgress() override;
  CudaProgress(const CudaProgress&) = delete;
  CudaProgress& operator=(const CudaProgress&) = delete;

  void Add(uint64_t begun, uint64_t ended) override;
  uint64_t ended() const override { return Seen(1); }
  uint64_t begun() const override { return Seen(0); }
  void Linger(std::chrono::microseconds most) override;

 private:
  uint64_t Seen(int which) const;

  CudaDevice& device_;
  cudaStream_t branch_ = nullptr;
  BufferPtr sums_, seen_;  // the two sums in GPU memory, and their latest values in host memory
  BufferPtr draws_;        // how often Linger has drawn a time, in GPU memory
};

}  // namespace weft::cuda
