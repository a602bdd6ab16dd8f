// NcclGroup: collectives of NCCL among ranks with one GPU each, in the order of the device's current stream.
//
// Sums are NCCL's own. They are not in rank order, and those of 16-bit floats round at every hop. Sends and receives
// are in stream order like all other calls. So if two ranks send to each other, one must receive first or send in
// another stream. Each group has a communicator, which connects on first use. A group of one rank has none and only
// copies. Gathers in memory of AllocateWindows (nccl_windows.h) go by copy engines, on a communicator of their own.
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
#include "weft/dist/group/group_factory.h"
#include "weft/dist/group/nccl/nccl_communicator.h"
#include "weft/dist/group/nccl/nccl_copies.h"
#include "weft/dist/group/stream/replay_watch.h"
#include "weft/dist/group/stream/stream_watch.h"
#include "weft/dist/group/stream/streamed_group.h"
#include "weft/dist/signals/hang_guard.h"
#include "weft/dist/start/bootstrap.h"

namespace weft {

class NcclGroup final : public StreamedGroup, private ReplayedGroup {
  using Issued = std::span<const std::shared_ptr<const IssuedCall>>;
  // A connection that NCCL makes on first use. It depends on the kind of call, its peer and its size.
  using Connection = std::tuple<CollectiveOp, int, int>;  // op, peer, binary logarithm of the bytes

 public:
  // `comm` is null for a group of one rank. `one_host`: all ranks are on one host.
  NcclGroup(std::string name, int rank, std::vector<int> ranks, StreamedDevice& device,
            std::shared_ptr<NcclCommunicator> comm, std::shared_ptr<ReplayWatch> replays, bool one_host);
  ~NcclGroup() override;
  void Abort(const std::string& reason) override;

  // Returns why copy engines cannot make gathers of this group, or OK as far as this rank knows.
  absl::Status MayCopy() const;
  // Makes copies(), unless it has been made. Collective over the group. Requires MayCopy on all ranks, and that no call
  // is running.
  absl::Status ConnectCopies();
  // Those gathers go by copy engines whose operands are in its windows. Null before ConnectCopies.
  std::shared_ptr<NcclCopies> copies() const;
  StreamedDevice& streams() const { return device(); }
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

  void Put(const Collective& call);
  void Alone(const Collective& call);
  void Reduce(const Collective& call);
  void Move(const Collective& call);
  void Exchange(const Collective& call);

  std::shared_ptr<NcclCommunicator> comm_;
  bool one_host_;
  mutable std::mutex copies_mutex_;
  std::shared_ptr<NcclCopies> copies_;
  std::mutex reason_mutex_;
  std::string reason_;              // why it was aborted
  std::set<Connection> connected_;  // made by earlier calls
  BufferPtr word_;                  // the element that a barrier reduces
  std::shared_ptr<ReplayWatch> replays_;
  StreamWatch watch_;                        // near the end, because its thread uses the other members
  std::optional<ReplayWatch::Track> track_;  // last, as watch_; only in a group of several ranks
};

// Makes NCCL groups for one device kind. The first Make connects all ranks, and the groups are split from that
// communicator. Bootstrap and device must outlive the factory and the groups.
class NcclGroupFactory final : public GroupFactory {
 public:
  NcclGroupFactory(std::shared_ptr<const NcclLibrary> library, Bootstrap& bootstrap, StreamedDevice& device)
      : library_(std::move(library)),
        bootstrap_(bootstrap),
        device_(device),
        replays_(std::make_shared<ReplayWatch>(device)) {}
  std::unique_ptr<ProcessGroup> Make(const std::string& name, const std::vector<int>& ranks, DeviceKind kind) override;

 private:
  std::shared_ptr<NcclCommunicator> Split(const std::string& name, const std::vector<int>& ranks, int rank);
  void Meet();

  std::shared_ptr<const NcclLibrary> library_;
  Bootstrap& bootstrap_;
  StreamedDevice& device_;
  std::shared_ptr<ReplayWatch> replays_;
  std::shared_ptr<NcclCommunicator> world_;
  std::vector<std::string> hosts_;  // of all ranks
  bool world_taken_ = false;        // a group uses world_
};

}  // namespace weft
