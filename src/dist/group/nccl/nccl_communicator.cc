#include "weft/dist/group/nccl/nccl_communicator.h"

#include <exception>
#include <thread>

#include "weft/dist/group/process_group.h"

namespace weft {

NcclCommunicator::~NcclCommunicator() {
  if (!comm_ || aborted_) return;
  if (std::uncaught_exceptions() > 0)
    Abort();
  else
    library_->CommDestroy(comm_);
}

// NCCL may wait for a call that never ends, so a thread of its own makes such an abort.
void NcclCommunicator::Abort() {
  std::lock_guard lock(mutex_);
  if (aborted_.exchange(true)) return;
  if (!endless_)
    library_->CommAbort(comm_);
  else
    std::thread([library = library_, comm = comm_] { library->CommAbort(comm); }).detach();
}

std::unique_lock<std::mutex> NcclCommunicator::Lock() {
  std::unique_lock lock(mutex_);
  if (aborted_) throw AbortedError("aborted: an earlier call failed");
  return lock;
}

// Returns "" while a call is being made, because the next check reports the error.
std::string NcclCommunicator::AsyncError() const {
  std::unique_lock lock(mutex_, std::try_to_lock);
  nccl::Result result = nccl::Result::kSuccess;
  if (!lock || aborted_ || library_->CommGetAsyncError(comm_, &result) != nccl::Result::kSuccess) return "";
  if (result == nccl::Result::kSuccess || result == nccl::Result::kInProgress) return "";
  return library_->Describe(result, comm_);
}

}  // namespace weft
