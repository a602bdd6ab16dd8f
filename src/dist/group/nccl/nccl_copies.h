// NcclCopies: the gathers and exchanges of a group that the copy engines of GPUs make, so that they take no
// multiprocessor.
//
// NCCL does so on a communicator of the policy "zero", between symmetric windows: memory of ncclMemAlloc that all ranks
// of the group register together. Each rank writes its chunks into the windows of the others, at the offset that its
// own output has, so offsets must be the same on all ranks.
//
// The input of a gather outside of the window is first copied into the window's staging area. Such inputs are few and
// small: those weights that are gathered in the type in which they are stored.
//
// The ranks meet before and after each call, by words in each other's memory that the stream waits for.
#pragma once
#include <cstddef>
#include <cstdint>
#include <memory>
#include <mutex>
#include <span>
#include <vector>

#include "weft/core/runtime/streams.h"
#include "weft/dist/group/issued_call.h"
#include "weft/dist/group/nccl/nccl_communicator.h"
#include "weft/dist/group/nccl/nccl_memory.h"

namespace weft {

class NcclCopies {
 public:
  using Issued = std::span<const std::shared_ptr<const IssuedCall>>;
  static constexpr size_t kStaging = kNcclStaging;

  // Registered memory (nccl_window.h): `bytes` of `data` for operands, and kStaging bytes at `staging`.
  struct Window {
    char* data = nullptr;
    size_t bytes = 0;
    char* staging = nullptr;
  };

  // The group has `size` ranks. The device must outlive this object.
  NcclCopies(std::shared_ptr<NcclCommunicator> comm, StreamedDevice& device, int size)
      : comm_(std::move(comm)), device_(device), size_(size) {}

  // From now on calls whose outputs are in this window go by copy engines.
  void Add(const Window& window) { windows_.push_back(window); }
  void Remove(const void* data);

  // Whether the calls are gathers and exchanges for the copy engines. Depends on sizes and offsets only, so it is the
  // same on all ranks.
  bool Takes(Issued issued) const;
  // Puts them into the current stream. Throws Error if NCCL refuses one.
  void Put(Issued issued);

  const std::shared_ptr<NcclCommunicator>& comm() const { return comm_; }
  int64_t made() const { return made_; }  // calls given to NCCL so far; a recorded one counts once
  void Abort() { comm_->Abort(); }

 private:
  const Window* WindowOf(const Collective& call) const;
  void MakeBlocks(const Collective& call, const void* in);
  void Make(CollectiveOp op, const void* in, void* out, size_t bytes);

  std::shared_ptr<NcclCommunicator> comm_;
  StreamedDevice& device_;
  int size_;
  std::vector<Window> windows_;
  int64_t made_ = 0;
};

}  // namespace weft
