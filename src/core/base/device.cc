#include "weft/core/base/device.h"

namespace weft {
namespace {
thread_local Device default_device;
}  // namespace

const char* Name(DeviceKind kind) { return kind == DeviceKind::kCpu ? "cpu" : "cuda"; }
std::string ToString(Device device) { return std::string(Name(device.kind)) + ":" + std::to_string(device.index); }

Device DefaultDevice() { return default_device; }
DefaultDeviceScope::DefaultDeviceScope(Device device) : previous_(default_device) { default_device = device; }
DefaultDeviceScope::~DefaultDeviceScope() { default_device = previous_; }

}  // namespace weft
