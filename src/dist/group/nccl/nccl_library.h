// NcclLibrary: libnccl.so.2, opened when ranks on GPUs are to talk. CPU runs and runs on one GPU load none of it.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/dist/group/nccl/nccl_api.h"

namespace weft {

class NcclLibrary : public nccl::Functions {
 public:
  // Sets what of the environment of NCCL and CUDA the user has not set (README.md, On several GPUs): before CUDA
  // starts. On one host nothing listens but on the loopback.
  static void SetEnvironment(bool one_host);
  // The same, and opens `file`; `ranks` is for the words. Not found: the library or what it needs is not there. Failed
  // precondition: it is too old, or the environment asks for NVLink multicast.
  static absl::StatusOr<std::shared_ptr<const NcclLibrary>> Open(int ranks, bool one_host,
                                                                 const std::string& file = "libnccl.so.2");

  // Throws Error in NCCL's words where `result` is a failure; `what` was tried.
  void Check(nccl::Result result, const std::string& what, nccl::Communicator* comm = nullptr) const;
  std::string Describe(nccl::Result result, nccl::Communicator* comm) const;

 private:
  NcclLibrary() = default;
  absl::Status Find(void* library, const std::string& file);
  int version_ = 0;  // 22809 for 2.28.9
};

// "2.28.9"
std::string NcclVersionText(int version);

}  // namespace weft
