// DeviceDouble: a device of another kind where there is none. Its memory is out of the host's reach, as a GPU's is: a
// pointer to it that the host follows ends the process.
#pragma once
#include <sys/mman.h>

#include <cstring>
#include <map>
#include <vector>

#include "weft/core/base/device_runtime.h"
#include "weft/core/base/error.h"

namespace weft::test {

class DeviceDouble final : public DeviceRuntime {
 public:
  ~DeviceDouble() override {
    for (auto& [address, bytes] : memory_) munmap(address, bytes.size());
  }
  Device device() const override { return {DeviceKind::kCuda, 0}; }
  std::string name() const override { return "a double"; }
  BufferPtr Allocate(size_t bytes) override {
    size_t room = bytes ? bytes : 1;
    void* address = mmap(nullptr, room, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    WEFT_CHECK(address != MAP_FAILED, "the double has no address left");
    memory_[static_cast<char*>(address)].resize(room);
    return std::make_shared<Buffer>(
        address, bytes, device(),
        [](Buffer& buffer) { static_cast<DeviceDouble&>(buffer.runtime()).Release(buffer.data()); }, this);
  }
  BufferPtr AllocateStaging(size_t bytes) override { return AllocateCpu(bytes); }
  void Copy(void* to, const void* from, size_t bytes) override {
    if (bytes) std::memcpy(Reached(to), Reached(const_cast<void*>(from)), bytes);
  }
  void Fill(void* data, uint8_t byte, size_t bytes) override {
    if (bytes) std::memset(Reached(data), byte, bytes);
  }
  void Synchronize() override {}
  std::unique_ptr<Event> NewEvent() override { return CpuRuntime().NewEvent(); }
  std::unique_ptr<Recording> Record(absl::FunctionRef<void()>) override { return nullptr; }
  Memory MemoryNow() const override { return {size_t(1) << 40, size_t(1) << 40}; }
  size_t PeakBytes() const override { return 0; }

 private:
  // Where the bytes of an address of the double really are; the host's own stay.
  void* Reached(void* data) {
    auto* at = static_cast<char*>(data);
    auto after = memory_.upper_bound(at);
    if (after == memory_.begin()) return data;
    auto& [address, bytes] = *std::prev(after);
    return at < address + bytes.size() ? bytes.data() + (at - address) : data;
  }
  void Release(void* data) {
    auto found = memory_.find(static_cast<char*>(data));
    munmap(data, found->second.size());
    memory_.erase(found);
  }

  std::map<char*, std::vector<char>> memory_;
};

}  // namespace weft::test
