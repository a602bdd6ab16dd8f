#include "weft/kernels/cuda/device/locked_memory.h"

#include <cuda_runtime_api.h>
#include <sys/mman.h>

#include <algorithm>
#include <thread>
#include <vector>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

constexpr size_t kMuch = size_t(64) << 20;
constexpr size_t kSmallPage = 4096;  // one write per 4096 bytes maps every page, whatever its size
constexpr size_t kMostThreads = 16;

// Returns whether the failure is that the host locks no more pages. CUDA reports either an error of its own or that of
// the system call.
bool LocksNoMore(cudaError_t status) {
  bool full = status == cudaErrorMemoryAllocation || status == cudaErrorOperatingSystem;
  if (full) cudaGetLastError();  // the caller handles it; the next call starts clean
  return full;
}

// Makes the system map all pages. Several threads share the work, because the system clears each page first.
void TouchPages(char* data, size_t bytes) {
  size_t threads = std::clamp<size_t>(std::thread::hardware_concurrency(), 1, kMostThreads);
  threads = std::min(threads, bytes / kMuch + 1);
  size_t part = (bytes / threads / kSmallPage + 1) * kSmallPage;
  std::vector<std::jthread> workers;
  for (size_t begin = 0; begin < bytes; begin += part)
    workers.emplace_back([data, begin, end = std::min(begin + part, bytes)] {
      for (size_t at = begin; at < end; at += kSmallPage) *static_cast<volatile char*>(data + at) = 0;
    });
}

BufferPtr AllocateMuch(size_t bytes) {
  Memory host = CpuRuntime().MemoryNow();
  if (host.total && host.free < bytes) return nullptr;  // touching more would end the process
  void* data = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (data == MAP_FAILED) return nullptr;
  madvise(data, bytes, MADV_HUGEPAGE);  // fewer pages to clear and to lock, if the system has huge ones
  TouchPages(static_cast<char*>(data), bytes);
  cudaError_t status = cudaHostRegister(data, bytes, cudaHostRegisterDefault);
  if (status != cudaSuccess) munmap(data, bytes);
  if (LocksNoMore(status)) return nullptr;
  Check(status, "cudaHostRegister");
  return std::make_shared<Buffer>(data, bytes, Device{}, [](Buffer& buffer) {
    cudaHostUnregister(buffer.data());
    munmap(buffer.data(), buffer.bytes());
  });
}

}  // namespace

BufferPtr AllocateLocked(size_t bytes) {
  if (bytes >= kMuch) return AllocateMuch(bytes);
  void* data = nullptr;
  cudaError_t status = cudaHostAlloc(&data, bytes ? bytes : 1, cudaHostAllocDefault);
  if (LocksNoMore(status)) return nullptr;
  Check(status, "cudaHostAlloc");
  return std::make_shared<Buffer>(data, bytes, Device{}, [](Buffer& buffer) { cudaFreeHost(buffer.data()); });
}

}  // namespace weft::cuda
