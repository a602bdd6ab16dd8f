// NCCL's groups on device doubles, with the library that replaces NCCL (fake_nccl.cc).
#pragma once
#include <memory>
#include <string>

#include "double/device_double.h"
#include "weft/core/base/error.h"
#include "weft/dist/group/nccl/nccl_group.h"

namespace weft::test {

inline std::shared_ptr<const NcclLibrary> OpenFakeNccl() {
  auto library = NcclLibrary::Open(2, true, WEFT_FAKE_NCCL);
  if (!library.ok()) Fail(std::string(library.status().message()));
  return *library;
}
// Opened once, because that sets environment variables and ranks are threads.
inline std::shared_ptr<const NcclLibrary> FakeNccl() {
  static const std::shared_ptr<const NcclLibrary> library = OpenFakeNccl();
  return library;
}

inline std::unique_ptr<GroupFactory> NcclGroups(Bootstrap& bootstrap, DeviceDouble& device) {
  return std::make_unique<NcclGroupFactory>(FakeNccl(), bootstrap, device);
}

}  // namespace weft::test
