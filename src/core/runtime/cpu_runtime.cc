#include <fmt/format.h>
#include <sys/resource.h>

#include <cstring>

#include "weft/core/base/device_runtime.h"
#include "weft/core/base/error.h"
#include "weft/core/base/host_memory.h"
#include "weft/core/host/host_name.h"

namespace weft {
namespace {

class Cpu final : public DeviceRuntime {
 public:
  Device device() const override { return {}; }
  std::string name() const override { return "CPU"; }
  BufferPtr Allocate(size_t bytes) override { return AllocateCpu(bytes); }
  BufferPtr TryAllocateStaging(size_t bytes) override { return AllocateCpu(bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes > 0) std::memcpy(to, from, bytes);
  }
  void Fill(void* data, uint8_t byte, size_t bytes) override {
    if (bytes > 0) std::memset(data, byte, bytes);
  }
  void Synchronize() override {}
  std::unique_ptr<Event> NewEvent() override { return std::make_unique<Always>(); }
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()>) override { return nullptr; }
  Memory MemoryNow() const override { return HostMemory(); }
  size_t PeakBytes() const override {
    rusage usage{};
    getrusage(RUSAGE_SELF, &usage);
    return size_t(usage.ru_maxrss) * 1024;
  }

 private:
  struct Always final : Event {
    void Record() override {}
    bool Done() override { return true; }
  };
};

}  // namespace

BufferPtr DeviceRuntime::AllocateStaging(size_t bytes) {
  BufferPtr staging = TryAllocateStaging(bytes);
  if (!staging) Fail(OutOfMemory({.where = PlaceOf(CpuRuntime()), .asked = bytes, .memory = HostMemory()}));
  return staging;
}

std::string PlaceOf(const DeviceRuntime& runtime) {
  std::string host = HostName();
  if (runtime.device().kind == DeviceKind::kCpu) return fmt::format("the CPU of host {}", host);
  return fmt::format("{} ({}) of host {}", runtime.name(), ToString(runtime.device()), host);
}

DeviceRuntime& CpuRuntime() {
  static Cpu cpu;
  return cpu;
}

}  // namespace weft
