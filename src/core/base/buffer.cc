#include "weft/core/base/buffer.h"

#include <atomic>
#include <cstdlib>

#include "weft/core/base/device_runtime.h"
#include "weft/core/base/error.h"
#include "weft/core/base/process_memory.h"

namespace weft {
namespace {
std::atomic<size_t> buffers_allocated{0};
}  // namespace

BufferPtr AllocateCpu(size_t bytes) {
  size_t rounded = (bytes + 63) / 64 * 64;
  void* data = std::aligned_alloc(64, rounded ? rounded : 64);
  WEFT_CHECK(data, OutOfMemory(HostShortage(bytes)));
  buffers_allocated.fetch_add(1, std::memory_order_relaxed);
  return std::make_shared<Buffer>(data, bytes, Device{}, [](Buffer& buffer) { std::free(buffer.data()); });
}

DeviceRuntime& Buffer::runtime() const { return runtime_ ? *runtime_ : CpuRuntime(); }

size_t CpuBuffersAllocated() { return buffers_allocated.load(std::memory_order_relaxed); }

}  // namespace weft
