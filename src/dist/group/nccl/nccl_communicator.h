// NcclCommunicator: owns an NCCL communicator. The destructor destroys it, or aborts it while an exception unwinds,
// because pending calls would wait forever.
#pragma once
#include <atomic>
#include <memory>
#include <mutex>
#include <string>

#include "weft/dist/group/nccl/nccl_library.h"

namespace weft {

class NcclCommunicator {
 public:
  NcclCommunicator(std::shared_ptr<const NcclLibrary> library, nccl::Communicator* comm)
      : library_(std::move(library)), comm_(comm) {}
  ~NcclCommunicator();
  NcclCommunicator(const NcclCommunicator&) = delete;
  NcclCommunicator& operator=(const NcclCommunicator&) = delete;

  const NcclLibrary& library() const { return *library_; }
  const std::shared_ptr<const NcclLibrary>& shared_library() const { return library_; }
  nccl::Communicator* get() const { return comm_; }
  // Ends the running calls of this rank. Thread-safe and idempotent. Blocks until the recordings with its calls are
  // destroyed, so their owners must release them first. After set_endless it never blocks, and calls may stay that only
  // the end of the process ends.
  void Abort();
  // From now on there may be calls in windows: an abort ends neither copy engines nor symmetric kernels that wait for a
  // rank.
  void set_endless() { endless_ = true; }
  bool aborted() const { return aborted_; }
  // Must be held while NCCL is given a call, because an abort frees the communicator. Throws AbortedError after an
  // abort.
  std::unique_lock<std::mutex> Lock();
  std::string AsyncError() const;  // an error after a call returned; "" for none

 private:
  std::shared_ptr<const NcclLibrary> library_;
  nccl::Communicator* comm_;
  mutable std::mutex mutex_;
  std::atomic<bool> aborted_{false}, endless_{false};
};

}  // namespace weft
