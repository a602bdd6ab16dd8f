// Buffer: a block of memory on one device. The only object of Weft's that is shared by reference count.
#pragma once
#include <cstddef>
#include <memory>

#include "weft/core/base/device.h"

namespace weft {

class DeviceRuntime;

class Buffer {
 public:
  using Free = void (*)(Buffer&);
  // Takes ownership of `data`, given back through `free` (null: the memory is borrowed). `runtime` is the one whose
  // memory this is; it outlives the buffer's use, and null means the CPU's.
  Buffer(void* data, size_t bytes, Device device, Free free, DeviceRuntime* runtime = nullptr)
      : data_(data), bytes_(bytes), device_(device), free_(free), runtime_(runtime) {}
  ~Buffer() {
    if (free_) free_(*this);
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;

  void* data() const { return data_; }
  size_t bytes() const { return bytes_; }
  Device device() const { return device_; }
  DeviceRuntime& runtime() const;

 private:
  void* data_;
  size_t bytes_;
  Device device_;
  Free free_;
  DeviceRuntime* runtime_;
};
using BufferPtr = std::shared_ptr<Buffer>;

// CPU memory, aligned to 64 bytes, contents undefined. Throws Error when there is no memory.
BufferPtr AllocateCpu(size_t bytes);
// How many CPU buffers this process has allocated: what "allocates nothing after step 2" is measured by.
size_t CpuBuffersAllocated();

}  // namespace weft
