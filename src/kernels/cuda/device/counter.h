// CudaCounter: a number that a kernel of one thread moves on in the GPU's memory and stores in the host's, which waits
// for nothing: 2 us (tests/bench/ladder, progress).
#pragma once
#include "weft/core/runtime/streams.h"

namespace weft::cuda {

class CudaDevice;

class CudaCounter final : public StreamedDevice::Counter {
 public:
  explicit CudaCounter(CudaDevice& device);

  void Add(uint64_t more) override;
  uint64_t Value() const override;

 private:
  CudaDevice& device_;
  BufferPtr count_, seen_;  // of the GPU, and of the host
};

}  // namespace weft::cuda
