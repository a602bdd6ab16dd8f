// NcclLibrary: loads libnccl.so.2 when ranks on GPUs communicate. CPU runs and runs on one GPU do not load it.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/dist/group/nccl/nccl_api.h"

namespace weft {

class NcclLibrary : public nccl::Functions {
 public:
  // Sets those environment variables of NCCL that the user has not set (docs/reference/environment.md), and opens
  // `file`. With `one_host`, NCCL listens only on the loopback. `ranks` is for error messages. Returns kNotFound if the
  // library or a dependency is missing. Returns kFailedPrecondition if it is too old or the environment requests NVLink
  // multicast.
  static absl::StatusOr<std::shared_ptr<const NcclLibrary>> Open(int ranks, bool one_host,
                                                                 const std::string& file = "libnccl.so.2");

  // Returns kFailedPrecondition if the environment requests NVLink multicast, as Open does.
  static absl::Status CheckEnvironment();

  int version() const { return version_; }  // 22809 for 2.28.9
  std::string Path() const;                 // of the library's file, as the loader found it
  // Returns an error if the library lacks a function of WEFT_NCCL_WINDOW_FUNCTIONS.
  absl::Status HasWindows() const;
  // Throws Error with NCCL's message if `result` is a failure. `what` names the attempted operation.
  void Check(nccl::Result result, const std::string& what, nccl::Communicator* comm = nullptr) const;
  std::string Describe(nccl::Result result, nccl::Communicator* comm) const;

 private:
  NcclLibrary() = default;
  absl::Status Find(void* library, const std::string& file);
  int version_ = 0;
};

// "2.28.9"
std::string NcclVersionText(int version);

}  // namespace weft
