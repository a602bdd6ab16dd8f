// NcclWindow: memory that all ranks of a communicator have registered together, so that its calls reach each other's.
#pragma once
#include <cstddef>
#include <memory>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/nccl/nccl_communicator.h"

namespace weft {

class NcclWindow {
 public:
  // Registers `bytes` at `memory`, which is of ncclMemAlloc. Collective over the communicator.
  static absl::StatusOr<NcclWindow> Register(std::shared_ptr<NcclCommunicator> comm, void* memory, size_t bytes);

  // Gathers a few bytes of all ranks at `at`, which is in the window, and checks them. NCCL connects the ranks
  // meanwhile. Collective over the communicator, of which this is rank `rank` among `size`. May overwrite kTried bytes.
  absl::Status Try(char* at, StreamedDevice& device, int rank, int size) const;
  static constexpr size_t kTried = size_t(64) << 10;

  // Ends the registration. No call that uses the window may be running. The destructor does not do so, because after a
  // failure of a rank the window has to stay.
  void Deregister();

  const NcclCommunicator& comm() const { return *comm_; }

 private:
  NcclWindow(std::shared_ptr<NcclCommunicator> comm, nccl::MemoryWindow* handle)
      : comm_(std::move(comm)), handle_(handle) {}

  std::shared_ptr<NcclCommunicator> comm_;
  nccl::MemoryWindow* handle_;
};

}  // namespace weft
