// ProcessGroup: the ranks of one mesh axis (or of the whole mesh) that communicate, on one kind of device.
//
//   group.AllReduce(in, out, n, DType::kF32, ReduceOp::kSum);     // done on return
//   Work work = group.Start({.op = CollectiveOp::kAllGather, .in = in, .out = out, .count = n, .dtype = DType::kBF16});
//   work.Wait();
//
// All ranks of a group make the same collective calls in the same order, from one thread each. Reductions run in rank
// order, so results do not change from run to run. Ranks in arguments are ranks of the group. Memory is contiguous and
// on the group's device; outputs overlap no input, but AllReduce may run in place.
//
// A group of a device with streams (core/runtime/streams.h) is stream ordered: its calls take their place in the
// device's current stream. Enqueue returns before they are done; all other functions wait as they say.
//
// Every function throws Error naming the group, the op, its sequence number, dtype, count, rank and the last calls:
// when a rank is late (set_timeout), gone, makes another call, or when the group was aborted (AbortedError).
#pragma once
#include <array>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <numeric>
#include <span>
#include <string>
#include <vector>

#include "weft/core/base/buffer.h"
#include "weft/core/base/error.h"
#include "weft/dist/group/call_record.h"
#include "weft/dist/group/collective.h"
#include "weft/dist/group/issued_call.h"
#include "weft/dist/group/work.h"

namespace weft {

// Thrown to the ranks that were waiting when another one failed: a consequence, never the cause.
class AbortedError : public Error {
 public:
  using Error::Error;
};

struct CallCount {
  int64_t calls = 0;
  int64_t bytes = 0;               // handed over by this rank: the counts given x the size of an element
  int64_t sent = 0, received = 0;  // what the transport moved for it; 0 where ranks share memory
  bool operator==(const CallCount&) const = default;
};

class ProcessGroup {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  virtual ~ProcessGroup();
  ProcessGroup(const ProcessGroup&) = delete;
  ProcessGroup& operator=(const ProcessGroup&) = delete;

  const std::string& name() const { return name_; }
  int rank() const { return rank_; }
  int size() const { return int(ranks_.size()); }
  const std::vector<int>& ranks() const { return ranks_; }  // global ranks, in order of the group's
  DeviceKind device_kind() const { return kind_; }

  // out[count] = reduction of all in[count]. in == out is allowed.
  void AllReduce(const void* in, void* out, int64_t count, DType dtype, ReduceOp op = ReduceOp::kSum,
                 Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kAllReduce,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .reduce = op,
         .site = SiteText(loc)});
  }
  // out[size][count] = the ranks' in[count].
  void AllGather(const void* in, void* out, int64_t count, DType dtype, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kAllGather, .in = in, .out = out, .count = count, .dtype = dtype, .site = SiteText(loc)});
  }
  // out[count] = reduction of block `rank` of all in[size][count].
  void ReduceScatter(const void* in, void* out, int64_t count, DType dtype, ReduceOp op = ReduceOp::kSum,
                     Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kReduceScatter,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .reduce = op,
         .site = SiteText(loc)});
  }
  // out[size][count]: block r is block `rank` of rank r's in[size][count].
  void AllToAll(const void* in, void* out, int64_t count, DType dtype, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kAllToAll, .in = in, .out = out, .count = count, .dtype = dtype, .site = SiteText(loc)});
  }
  // data[count] of root to all.
  void Broadcast(void* data, int64_t count, DType dtype, int root, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kBroadcast,
         .in = data,
         .out = data,
         .count = count,
         .dtype = dtype,
         .peer = root,
         .site = SiteText(loc)});
  }
  // out[count] of root = reduction of all in[count]; the others' out is not used. in == out is allowed.
  void Reduce(const void* in, void* out, int64_t count, DType dtype, int root, ReduceOp op = ReduceOp::kSum,
              Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kReduce,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .reduce = op,
         .peer = root,
         .site = SiteText(loc)});
  }
  // In the ring of the ranks, out[count] = in[count] of the rank `by` places before this one: every rank passes its
  // piece on by that many places. Any number; a negative one passes backwards. An uneven dim moves as whole chunks, so
  // counts are equal.
  void Shift(const void* in, void* out, int64_t count, DType dtype, int by = 1, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kShift,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .peer = (by % size() + size()) % size(),
         .site = SiteText(loc)});
  }
  // As AllGather and AllToAll with uneven, maybe empty pieces, which lie one after the other in rank order.
  void AllGatherV(const void* in, void* out, std::span<const int64_t> counts, DType dtype, Loc loc = Loc::current()) {
    int64_t mine = size_t(rank_) < counts.size() ? counts[size_t(rank_)] : 0;
    Run({.op = CollectiveOp::kAllGatherV,
         .in = in,
         .out = out,
         .count = mine,
         .dtype = dtype,
         .recv_counts = counts,
         .site = SiteText(loc)});
  }
  void AllToAllV(const void* in, std::span<const int64_t> send_counts, void* out, std::span<const int64_t> recv_counts,
                 DType dtype, Loc loc = Loc::current()) {
    int64_t count = std::accumulate(send_counts.begin(), send_counts.end(), int64_t{0});
    Run({.op = CollectiveOp::kAllToAllV,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .send_counts = send_counts,
         .recv_counts = recv_counts,
         .site = SiteText(loc)});
  }
  void Barrier(Loc loc = Loc::current()) { Run({.op = CollectiveOp::kBarrier, .site = SiteText(loc)}); }
  // A send may return only when it is received: two ranks that send to each other use Start.
  void Send(const void* data, int64_t count, DType dtype, int to, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kSend, .in = data, .count = count, .dtype = dtype, .peer = to, .site = SiteText(loc)});
  }
  void Recv(void* data, int64_t count, DType dtype, int from, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kRecv, .out = data, .count = count, .dtype = dtype, .peer = from, .site = SiteText(loc)});
  }

  // The same as values. Run returns when the call is done. Start returns at once: collectives run in order on the
  // group's communication thread, sends and receives on one of their own each; where the group is stream ordered, all
  // in the stream. Spans and memory must stay until the work is done.
  void Run(const Collective& call);
  Work Start(const Collective& call);
  // The call in the order of the device's work: what is issued there next finds the result. Where the group is stream
  // ordered it returns at once; memory must stay until the stream is past the call, and an error is thrown by the
  // group's next call and by whoever waits for the device. Elsewhere issued work is done work, so it is Run.
  void Enqueue(const Collective& call);
  // The same for calls of which none reads what another writes: as one, where the group can do that.
  void EnqueueAll(std::span<const Collective> calls);
  virtual bool is_stream_ordered() const { return false; }

  // Makes every call on this group, also those that wait now, here and where it can on other ranks, throw AbortedError.
  virtual void Abort(const std::string& reason) = 0;

  // A call that is not done after this long fails. 300 s unless set (dist.timeout_s).
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // What this rank has called so far, per op.
  CallCount count(CollectiveOp op) const;
  void ResetCounts();

  // A mesh gives all its groups one recorder, before their first call.
  void set_recorder(std::shared_ptr<CallRecorder> recorder);
  const CallRecorder& recorder() const { return *recorder_; }
  // Called before a call throws because of a rank that is late, gone or makes another call, in the thread that runs it,
  // with what it would throw. Set before the first call.
  using FailureHandler = std::function<void(const std::string& error)>;
  void set_failure_handler(FailureHandler handler) { on_failure_ = std::move(handler); }
  // For tests of failures (collective_fault.h): sees each call of Run and Enqueue before it is made and may change it;
  // false leaves it out. Recorded calls it sees when a replay makes them, and can do neither. Set before the first
  // call.
  using CallFilter = std::function<bool(const ProcessGroup& group, Collective& call)>;
  void set_call_filter(CallFilter filter) { call_filter_ = std::move(filter); }
  uint64_t sequence() const { return sequence_; }  // of the last collective, from 1; by the thread that calls them

  // What the rows of collectives need from the group's device: strided copies (rows of `bytes`) and zeros, in order
  // with the group's calls, and memory. These do it on the CPU.
  virtual void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                        int64_t rows) const;
  virtual void Zero(void* data, int64_t bytes) const;
  virtual BufferPtr Allocate(size_t bytes) const { return AllocateCpu(bytes); }

 protected:
  // `rank` is the position of this rank in `ranks`.
  ProcessGroup(std::string name, int rank, std::vector<int> ranks, DeviceKind kind);

  // Does the call, which is checked, or throws by the deadline. Collectives come one at a time, numbered from 1 by
  // `sequence`; a send and a receive may run beside them, numbered per peer and direction. The group is of no use after
  // a throw.
  virtual void Execute(const Collective& call, uint64_t sequence, Deadline deadline) = 0;

  // Of a stream-ordered group: gives the call a place in the device's current stream and returns. The stream comes to
  // it and does it, by RunNow where that is the host's work; then Finished is called, once, from any thread.
  virtual void Issue(std::shared_ptr<const IssuedCall> issued);
  // Of a group that joins calls: the same for all of them, as one. Where it throws, Finished is called for none.
  virtual void IssueTogether(std::span<const std::shared_ptr<const IssuedCall>> issued);
  virtual bool joins_calls() const { return false; }
  // Of a stream-ordered group: whether Issue records calls, for replays to make. Those that it records have no number.
  virtual bool IsRecording() const { return false; }
  // Before a replay makes a recorded call: counts it and returns its number. Throws what a call of the group would.
  uint64_t Replayed(const Collective& call);
  CallRecord RecordOf(const Collective& call, uint64_t sequence) const;
  // Executes, recorded and with a deadline; throws Error or AbortedError that names the call.
  void RunNow(const Collective& call, uint64_t sequence);
  // Its parts, for an Issue that does not wait: the record of the call, from its begin to its end, and what a failure
  // of it is to throw, of which the failure handler has heard.
  uint64_t BeginRecord(const Collective& call, uint64_t sequence);
  void FinishRecord(uint64_t ticket) { recorder_->Finish(ticket); }
  std::exception_ptr FailureOf(const Collective& call, uint64_t sequence, const std::exception& e);
  // `error`: null where the call was done. The first error is what every later call throws.
  void Finished(const IssuedCall& issued, std::exception_ptr error);
  void FailLater(std::exception_ptr error);  // every later call throws it, if it is the first
  CallRecorder& own_recorder() const { return *recorder_; }
  // Adds to count(op), from the thread that executes.
  void CountTraffic(CollectiveOp op, int64_t sent, int64_t received);
  // Waits for the calls in the background and in streams. The destructor of a class that has Execute calls it first.
  void StopLanes();

 private:
  void Check(const Collective& call) const;
  void Count(const Collective& call);
  uint64_t NextSequence(const Collective& call);
  void RunFiltered(Collective call);
  void RunUnfiltered(const Collective& call);
  Work PutInStream(const Collective& call);
  void PutTogether(std::span<const Collective> calls);
  std::shared_ptr<const IssuedCall> Announce(const Collective& call);
  Lane& LaneOf(CollectiveOp op) { return *lanes_[op == CollectiveOp::kSend ? 1 : op == CollectiveOp::kRecv ? 2 : 0]; }

  std::string name_;
  int rank_;
  std::vector<int> ranks_;
  DeviceKind kind_;
  std::chrono::milliseconds timeout_{300'000};
  std::shared_ptr<CallRecorder> recorder_;
  int record_group_ = 0;
  FailureHandler on_failure_;
  CallFilter call_filter_;
  uint64_t sequence_ = 0;
  std::vector<uint64_t> sent_, received_;  // per peer
  struct Counter {
    std::atomic<int64_t> calls{0}, bytes{0}, sent{0}, received{0};
  };
  std::array<Counter, kNumCollectiveOps> counts_;
  std::array<std::unique_ptr<Lane>, 3> lanes_;  // collectives, sends, receives
  std::mutex in_stream_mutex_;                  // of what follows
  std::condition_variable stream_empty_;
  int in_stream_ = 0;                   // calls that were issued and are not finished
  std::exception_ptr in_stream_error_;  // of the first that failed
};

}  // namespace weft
