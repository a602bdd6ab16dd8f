// LimitedRuntime: the CPU with a limited amount of memory.
#pragma once
#include "weft/core/base/device_runtime.h"
#include "weft/core/base/error.h"

namespace weft::testing_ {

class LimitedRuntime final : public DeviceRuntime {
 public:
  // Reports `free` bytes as free, and allocates at most `limit` bytes in total.
  LimitedRuntime(size_t free, size_t limit, std::string name = "CPU")
      : free_(free), left_(limit), name_(std::move(name)) {}

  Device device() const override { return {}; }
  std::string name() const override { return name_; }
  BufferPtr Allocate(size_t bytes) override {
    allocations_++;
    if (bytes > left_) Fail(OutOfMemory({.where = PlaceOf(*this), .asked = bytes, .memory = MemoryNow()}));
    left_ -= bytes;
    return AllocateCpu(bytes);
  }
  BufferPtr TryAllocateStaging(size_t bytes) override { return Allocate(bytes); }
  void Copy(void* to, const void* from, size_t bytes) override { CpuRuntime().Copy(to, from, bytes); }
  void Fill(void* data, uint8_t byte, size_t bytes) override { CpuRuntime().Fill(data, byte, bytes); }
  void Synchronize() override {}
  std::unique_ptr<Event> NewEvent() override { return CpuRuntime().NewEvent(); }
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()> fn) override { return CpuRuntime().Record(fn); }
  Memory MemoryNow() const override { return {free_, size_t(1) << 40}; }
  size_t PeakBytes() const override { return 0; }

  int allocations() const { return allocations_; }

 private:
  size_t free_, left_;
  std::string name_;
  int allocations_ = 0;
};

}  // namespace weft::testing_
