// Times work on a stream, and copies to compare it with.
//
//   MemoryClock clock(stream);
//   double us = clock.MedianUs([&](int i) { Launch(i); });   // i counts launches: work may change its buffers
#pragma once
#include <cuda_runtime_api.h>

#include <cstddef>
#include <functional>
#include <vector>

class MemoryClock {
 public:
  static constexpr int kWarm = 3, kTimed = 25;

  explicit MemoryClock(cudaStream_t stream);
  ~MemoryClock();
  MemoryClock(const MemoryClock&) = delete;
  MemoryClock& operator=(const MemoryClock&) = delete;

  // The median over kTimed launches, after kWarm, each between two events. A long copy goes first, so that the host is
  // always ahead of the device: no time is the host's.
  double MedianUs(const std::function<void(int)>& launch);

 private:
  cudaStream_t stream_;
  void* filler_ = nullptr;
  std::vector<cudaEvent_t> begin_, end_;
};

// Both copy `bytes`, a multiple of 16: the driver's copy, and a kernel whose threads move four vectors of 16 bytes.
void CopyByDriver(cudaStream_t stream, void* to, const void* from, size_t bytes);
void CopyByKernel(cudaStream_t stream, void* to, const void* from, size_t bytes);
