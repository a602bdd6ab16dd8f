// NcclGroup: collectives of NCCL among ranks with one GPU each, in the order of the device's current stream.
//
// Sums are NCCL's own. They are not in rank order, and those of 16-bit floats round at every hop. Sends and receives
// are in stream order like all other calls. So if two ranks send to each other, one must receive first or send in
// another stream. Each group has a communicator, which connects on first use. A group of one rank has none and only
// copies. In memory of AllocateWindows (nccl_windows.h) copy engines can make gathers and exchanges, on a communicator
// of their own, and NCCL's symmetric kernels gathers and sums.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/runtime/streams.h"
#include "weft/dist/group/nccl/nccl_calls.h"
#include "weft/dist/group/nccl/nccl_communicator.h"
#include "weft/dist/group/nccl/nccl_copies.h"
#include "weft/dist/group/stream/replay_watch.h"
#include "weft/dist/group/stream/stream_watch.h"
#include "weft/dist/group/stream/streamed_group.h"
#include "weft/dist/signals/hang_guard.h"

namespace weft {

class NcclGroup final : public StreamedGroup, private ReplayedGroup {
  using Issued = std::span<const std::shared_ptr<const IssuedCall>>;
  // A connection that NCCL makes on first use. It depends on the kind of call, its peer and its size.
  using Connection = std::tuple<CollectiveOp, int, int>;  // op, peer, binary logarithm of the bytes

 public:
  // `comm` is null for a group of one rank. `host` is the name of this rank's host.
  NcclGroup(std::string name, int rank, std::vector<int> ranks, StreamedDevice& device,
            std::shared_ptr<NcclCommunicator> comm, std::shared_ptr<ReplayWatch> replays, std::string host);
  ~NcclGroup() override;
  void Abort(const std::string& reason) override;
  bool takes_blocks() const override { return true; }

  // Returns why this group cannot have windows, or OK as far as this rank knows.
  absl::Status MayHaveWindows() const;
  // Makes copies(), unless it has been made. Collective over the group. Requires MayHaveWindows on all ranks, and that
  // no call is running.
  absl::Status ConnectCopies();
  // Makes the gathers and exchanges whose operands are in its windows. Null before ConnectCopies.
  std::shared_ptr<NcclCopies> copies() const;
  // Must be called before the memory of a window of comm() is used.
  void AllowSymmetric();
  // Makes all other calls. Null in a group of one rank.
  const std::shared_ptr<NcclCommunicator>& comm() const { return comm_; }
  StreamedDevice& streams() const { return device(); }
  const std::string& host() const { return host_; }
  // Ends the process if `call`, which waits for the other ranks without a deadline, does not return.
  HangGuard Guard(const std::string& call) const;

 protected:
  void Execute(const Collective& call, uint64_t sequence, Deadline deadline) override;  // puts it into the stream
  void Issue(std::shared_ptr<const IssuedCall> issued) override { IssueTogether({&issued, 1}); }
  void IssueTogether(Issued issued) override;
  bool joins_calls() const override { return true; }

 private:
  void CheckAborted();
  void SetReason(const std::string& reason);
  void Record(Issued issued);
  void Call(bool connects, Deadline deadline, absl::FunctionRef<void()> put);
  bool Connects(const Collective& call);
  void Fence();
  void PutAll(Issued issued, Deadline deadline);
  void PutByKernels(Issued issued, Deadline deadline);
  void EndCalls();
  std::exception_ptr ErrorOf(const Collective& call, uint64_t sequence, std::exception_ptr error);

  uint64_t BeginReplay(const Collective& call) override { return Replayed(call); }
  CallRecord DescribeReplay(const Collective& call, uint64_t sequence) const override {
    return RecordOf(call, sequence);
  }
  const CallRecorder* ReplaysRecorder() const override { return &recorder(); }
  std::chrono::microseconds DelayOfCalls() const override { return call_delay(); }
  std::chrono::milliseconds TimeoutOf(const Collective& call) const override {
    return call.timeout.count() ? call.timeout : timeout();
  }
  std::string Fault() const override;
  void ReplayFailed(const Collective& call, uint64_t sequence, std::exception_ptr error) override;
  void EndReplays(const std::string& reason) override { Abort(reason); }

  std::shared_ptr<NcclCommunicator> comm_;
  std::string host_;
  NcclCalls calls_;
  mutable std::mutex copies_mutex_;
  std::shared_ptr<NcclCopies> copies_;
  std::mutex reason_mutex_;
  std::string reason_;              // why it was aborted
  std::set<Connection> connected_;  // made by earlier calls
  BufferPtr fence_;                 // a word; null unless calls may be kernels that NCCL launches early
  std::shared_ptr<ReplayWatch> replays_;
  StreamWatch watch_;                        // near the end, because its thread uses the other members
  std::optional<ReplayWatch::Track> track_;  // last, as watch_; only in a group of several ranks
};

}  // namespace weft
