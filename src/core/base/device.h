// Devices, and the scope that sets the default device (like PyTorch 2.0's set_default_device).
#pragma once
#include <cstdint>
#include <string>

namespace weft {

enum class DeviceKind : uint8_t { kCpu, kCuda };
inline constexpr int kNumDeviceKinds = 2;
const char* Name(DeviceKind kind);  // "cpu", "cuda"

struct Device {
  DeviceKind kind = DeviceKind::kCpu;
  int index = 0;
  bool operator==(const Device&) const = default;
};
std::string ToString(Device device);  // "cpu:0"

// Returns the device on which factories place tensors on this thread: that of the innermost scope, else the CPU.
Device DefaultDevice();

// While alive, DefaultDevice() on this thread returns `device`. Scopes nest.
class DefaultDeviceScope {
 public:
  explicit DefaultDeviceScope(Device device);
  ~DefaultDeviceScope();
  DefaultDeviceScope(const DefaultDeviceScope&) = delete;
  DefaultDeviceScope& operator=(const DefaultDeviceScope&) = delete;

 private:
  Device previous_;
};

}  // namespace weft
