// NCCL's groups on device doubles, with the library that replaces NCCL (fake_nccl.cc).
#pragma once
#include <dlfcn.h>

#include <memory>
#include <string>

#include "double/device_double.h"
#include "weft/core/base/error.h"
#include "weft/dist/group/nccl/nccl_factory.h"

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

// Calls a function of the library by which tests look at it and change it.
template <class Result, class... Arguments>
Result AskFakeNccl(const char* function, Arguments... arguments) {
  void* library = dlopen(WEFT_FAKE_NCCL, RTLD_NOW);
  return reinterpret_cast<Result (*)(Arguments...)>(dlsym(library, function))(arguments...);
}
// While alive, makes the library fail in one way.
class FailingNccl {
 public:
  explicit FailingNccl(const char* how) { AskFakeNccl<void>("fake_nccl_fail", how); }
  ~FailingNccl() { AskFakeNccl<void>("fake_nccl_fail", static_cast<const char*>("")); }
  FailingNccl(const FailingNccl&) = delete;
  FailingNccl& operator=(const FailingNccl&) = delete;
};
// Returns what has broken NCCL's rules for windows and groups since the last call, or "".
inline std::string FakeNcclFaults() {
  std::string faults;
  AskFakeNccl<void>("fake_nccl_faults", &faults);
  return faults;
}
struct FakeCopies {
  int64_t gathers;    // that copy engines have made
  int64_t exchanges;  // as well
  int64_t symmetric;  // calls that symmetric kernels have made
  int64_t blocks;     // of NCCL's memory that are not freed
};
inline FakeCopies CountFakeCopies() {
  FakeCopies count{};
  AskFakeNccl<void>("fake_nccl_copies", &count.gathers, &count.exchanges, &count.symmetric, &count.blocks);
  return count;
}

inline std::unique_ptr<GroupFactory> NcclGroups(Bootstrap& bootstrap, DeviceDouble& device) {
  AskFakeNccl<void>("fake_nccl_device", &device);
  return std::make_unique<NcclGroupFactory>(FakeNccl(), bootstrap, device);
}

}  // namespace weft::test
