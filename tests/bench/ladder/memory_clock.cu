#include "memory_clock.h"

#include "probe.h"

namespace {

constexpr size_t kFillerBytes = size_t(2) << 30;  // takes a millisecond to copy, in which the host issues the launches
constexpr int kCopyThreads = 256, kCopyVectors = 4;

__global__ void __launch_bounds__(kCopyThreads) CopyVectors(uint4* to, const uint4* from, size_t vectors) {
  size_t first = size_t(blockIdx.x) * kCopyThreads * kCopyVectors + threadIdx.x;
  uint4 held[kCopyVectors] = {};
#pragma unroll
  for (int u = 0; u < kCopyVectors; u++)
    if (first + u * kCopyThreads < vectors) held[u] = from[first + u * kCopyThreads];
#pragma unroll
  for (int u = 0; u < kCopyVectors; u++)
    if (first + u * kCopyThreads < vectors) to[first + u * kCopyThreads] = held[u];
}

}  // namespace

MemoryClock::MemoryClock(cudaStream_t stream) : stream_(stream), begin_(kWarm + kTimed), end_(kWarm + kTimed) {
  Check(cudaMalloc(&filler_, 2 * kFillerBytes), "allocate the filler");
  for (auto* events : {&begin_, &end_})
    for (cudaEvent_t& event : *events) Check(cudaEventCreate(&event), "create an event");
}

MemoryClock::~MemoryClock() {
  for (auto* events : {&begin_, &end_})
    for (cudaEvent_t event : *events) cudaEventDestroy(event);
  cudaFree(filler_);
}

double MemoryClock::MedianUs(const std::function<void(int)>& launch) {
  CopyByDriver(stream_, filler_, static_cast<char*>(filler_) + kFillerBytes, kFillerBytes);
  for (int i = 0; i < kWarm + kTimed; i++) {
    Check(cudaEventRecord(begin_[size_t(i)], stream_), "record the start");
    launch(i);
    Check(cudaEventRecord(end_[size_t(i)], stream_), "record the end");
  }
  Check(cudaStreamSynchronize(stream_), "run the timed launches");
  std::vector<float> times;
  for (size_t i = kWarm; i < begin_.size(); i++) {
    float ms = 0;
    Check(cudaEventElapsedTime(&ms, begin_[i], end_[i]), "read a time");
    times.push_back(ms);
  }
  return double(Median(times)) * 1e3;
}

void CopyByDriver(cudaStream_t stream, void* to, const void* from, size_t bytes) {
  Check(cudaMemcpyAsync(to, from, bytes, cudaMemcpyDeviceToDevice, stream), "copy on the device");
}

void CopyByKernel(cudaStream_t stream, void* to, const void* from, size_t bytes) {
  size_t vectors = bytes / sizeof(uint4), per_block = kCopyThreads * kCopyVectors;
  CopyVectors<<<unsigned((vectors + per_block - 1) / per_block), kCopyThreads, 0, stream>>>(
      static_cast<uint4*>(to), static_cast<const uint4*>(from), vectors);
  Check(cudaGetLastError(), "launch the copy kernel");
}
