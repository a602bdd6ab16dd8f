// NcclCalls: makes collectives by a communicator of NCCL, in the device's current stream.
#pragma once
#include <memory>

#include "absl/functional/function_ref.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/collective.h"
#include "weft/dist/group/nccl/nccl_communicator.h"

namespace weft {

class NcclCalls {
 public:
  // `comm` is null if there is one rank, whose calls are copies. `rank` is this rank's number among `size`. The device
  // must outlive this object.
  NcclCalls(std::shared_ptr<NcclCommunicator> comm, StreamedDevice& device, int rank, int size);

  // Puts the call into the current stream. Throws Error if NCCL refuses it.
  void Put(const Collective& call) const;
  // Makes the calls that `put` puts into one. It may be called in another `put`. Requires more than one rank.
  void Join(absl::FunctionRef<void()> put) const;

 private:
  void PutBlocks(const Collective& call) const;
  void Reduce(const Collective& call) const;
  void Move(const Collective& call) const;
  void Exchange(const Collective& call) const;

  std::shared_ptr<NcclCommunicator> comm_;
  StreamedDevice& device_;
  int rank_, size_;
  BufferPtr word_;  // the element that a barrier reduces
};

}  // namespace weft
