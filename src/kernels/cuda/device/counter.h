// CudaCounter: a counter that advances in the order of a stream and that the host reads without waiting. A kernel of
// one thread adds to the count in GPU memory and stores the result in host memory. It takes 2 us (tests/bench/ladder,
// progress), so in a recording it runs on a branch, and nothing waits for it.
#pragma once
#include <cuda_runtime_api.h>

#include "weft/core/runtime/streams.h"

namespace weft::cuda {

class CudaDevice;

class CudaCounter final : public StreamedDevice::Counter {
 public:
  explicit CudaCounter(CudaDevice& device);
  ~CudaCounter() override;
  CudaCounter(const CudaCounter&) = delete;
  CudaCounter& operator=(const CudaCounter&) = delete;

  void Add(uint64_t more) override;
  uint64_t Value() const override;
  void Linger(std::chrono::microseconds most) override;

 private:
  CudaDevice& device_;
  cudaStream_t branch_ = nullptr;
  BufferPtr count_, seen_;  // the count in GPU memory, and its latest value in host memory
  BufferPtr draws_;         // how often Linger has drawn a time, in GPU memory
};

}  // namespace weft::cuda
