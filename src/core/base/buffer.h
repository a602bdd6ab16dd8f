// Buffer: a block of memory on one device. Tensors share it by reference count.
#pragma once
#include <cstddef>
#include <memory>

#include "weft/core/base/device.h"

namespace weft {

class DeviceRuntime;

class Buffer {
 public:
  using Free = void (*)(Buffer&);
  // Takes ownership of `data` and releases it through `free`. A null `free` means that the memory is borrowed.
  // `runtime` is the device runtime that the memory belongs to. It must outlive all use of the buffer; null means the
  // CPU runtime.
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

// Returns CPU memory, aligned to 64 bytes, with undefined contents. Throws Error if out of memory.
BufferPtr AllocateCpu(size_t bytes);
// Returns how many CPU buffers this process has allocated. Tests use it to check that a run allocates nothing after
// step 2.
size_t CpuBuffersAllocated();

}  // namespace weft
