// The device on which a test trains: the CPU, or a GPU if WEFT_TEST_DEVICE is cuda, as ctest sets it for label gpu.
#pragma once
#include <cstdlib>
#include <string_view>

#include "weft/core/base/device.h"

namespace weft::testing_ {

inline bool OnGpu() {
  const char* name = std::getenv("WEFT_TEST_DEVICE");
  return name && std::string_view(name) == "cuda";
}
inline DeviceKind DeviceUnderTest() { return OnGpu() ? DeviceKind::kCuda : DeviceKind::kCpu; }

}  // namespace weft::testing_
