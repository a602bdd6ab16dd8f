// NcclCopies: the gathers of a group that the copy engines of GPUs make, so that they take no multiprocessor.
//
// NCCL does so on a communicator of the policy "zero", between symmetric windows: memory of ncclMemAlloc that all ranks
// of the group register together. Each rank writes its chunk into the windows of the others, at the offset that its own
// output has, so offsets must be the same on all ranks.
//
// An input outside of the window is first copied into the window's staging area. Such inputs are few and small: those
// weights that are gathered in the type in which they are stored.
//
// The ranks meet before and after each gather, by words in each other's memory that the stream waits for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "absl/status/status.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/issued_call.h"
#include "weft/dist/group/nccl/nccl_communicator.h"
#include "weft/dist/group/nccl/nccl_memory.h"

namespace weft {

class NcclCopies {
 public:
  using Issued = std::span<const std::shared_ptr<const IssuedCall>>;
  static constexpr size_t kStaging = kNcclStaging;

  // `bytes` of `data` for operands, and kStaging bytes at `staging`. All of it is registered.
  struct Window {
    char* data = nullptr;
    size_t bytes = 0;
    char* staging = nullptr;
    nccl::MemoryWindow* handle = nullptr;
  };

  // `rank` is this rank's number among the `size` ranks of the group. The device must outlive this object.
  NcclCopies(std::shared_ptr<NcclCommunicator> comm, StreamedDevice& device, int rank, int size)
      : comm_(std::move(comm)), device_(device), rank_(rank), size_(size) {}

  // Registers `bytes` at `memory` as `window`, whose handle it fills in. Collective over the group.
  absl::Status Register(void* memory, size_t bytes, Window window);
  // Gathers a few bytes of all ranks and checks them. Collective over the group.
  absl::Status Try(const void* data);
  // Ends the use of a window. No call with it may be running.
  void Deregister(const void* data);
  // Forgets a window but leaves it registered.
  void Forget(const void* data);

  // Whether the calls are gathers for the copy engines. Depends on sizes and offsets only, so it is the same on all
  // ranks.
  bool Takes(Issued issued) const;
  // Puts them into the current stream. Throws Error if NCCL refuses one.
  void Put(Issued issued);

  const NcclCommunicator& comm() const { return *comm_; }
  int64_t gathers() const { return gathers_; }  // given to NCCL so far; a recorded one counts once
  void Abort() { comm_->Abort(); }

 private:
  const Window* WindowOf(const Collective& call) const;
  void Gather(const void* in, void* out, size_t bytes);
  Window Take(const void* data);

  std::shared_ptr<NcclCommunicator> comm_;
  StreamedDevice& device_;
  int rank_, size_;
  std::vector<Window> windows_;
  int64_t gathers_ = 0;
};

}  // namespace weft
