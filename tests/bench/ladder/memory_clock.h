// Times work on a stream, and provides copies to compare it with.
//
//   MemoryClock clock(stream);
//   double us = clock.MedianUs([&](int i) { Launch(i); });   // i counts launches, so each can use other buffers
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

  // Returns the median over kTimed launches after kWarm warm-up launches, each between two events. A long copy runs
  // first, so that the host stays ahead of the device and its time does not count.
  double MedianUs(const std::function<void(int)>& launch);

 private:
  cudaStream_t stream_;
  void* filler_ = nullptr;
  std::vector<cudaEvent_t> begin_, end_;
};

// Both copy `bytes` bytes, a multiple of 16: one by the driver, one by a kernel whose threads move four vectors of 16
// bytes.
void CopyByDriver(cudaStream_t stream, void* to, const void* from, size_t bytes);
void CopyByKernel(cudaStream_t stream, void* to, const void* from, size_t bytes);
