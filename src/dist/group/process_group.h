// ProcessGroup: collectives among the ranks of one mesh axis (or of the whole mesh), on one kind of device.
//
//   group.AllReduce(in, out, n, DType::kF32, ReduceOp::kSum);     // done on return
//   Work work = group.Start({.op = CollectiveOp::kAllGather, .in = in, .out = out, .count = n, .dtype = DType::kBF16});
//   work.Wait();
//
// All ranks of a group must make the same collective calls in the same order, each rank from one thread. CPU groups
// reduce in rank order, so their results do not change from run to run; for GPUs see nccl_group.h. Rank arguments are
// ranks of the group. Memory must be contiguous and on the group's device. Outputs must not overlap inputs, except that
// AllReduce may run in place.
//
// A group of a device with streams (core/runtime/streams.h) is stream ordered: its calls take their place in the
// device's current stream. Enqueue returns before they are done. All other functions wait as documented.
//
// Every function throws Error if a rank is late (set_timeout), has ended or makes another call, and AbortedError if the
// group was aborted. The error has the group, op, sequence number, dtype, count, rank and last calls.
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

// Thrown on the ranks that were waiting when another one failed. It is a consequence, never the cause.
class AbortedError : public Error {
 public:
  using Error::Error;
};

struct CallCount {
  int64_t calls = 0;
  int64_t bytes = 0;               // this rank's input: elements times element size
  int64_t sent = 0, received = 0;  // moved by the transport, in bytes; 0 if ranks share memory
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
  const std::vector<int>& ranks() const { return ranks_; }  // global ranks, in the group's order
  DeviceKind device_kind() const { return kind_; }

  // out[count] = reduction of all ranks' in[count]. in == out is allowed.
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
  // out[size][count] = in[count] of each rank.
  void AllGather(const void* in, void* out, int64_t count, DType dtype, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kAllGather, .in = in, .out = out, .count = count, .dtype = dtype, .site = SiteText(loc)});
  }
  // out[count] = reduction of block `rank` of all ranks' in[size][count].
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
  // Copies data[count] of root to all ranks.
  void Broadcast(void* data, int64_t count, DType dtype, int root, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kBroadcast,
         .in = data,
         .out = data,
         .count = count,
         .dtype = dtype,
         .peer = root,
         .site = SiteText(loc)});
  }
  // out[count] on root = reduction of all ranks' in[count]. out is unused on the other ranks. in == out is allowed.
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
  // out[count] = in[count] of the rank `by` places before this one in the ring of ranks. Each rank passes its piece on
  // by that many places, backwards if `by` is negative. `by` may be any number. Counts are equal on all ranks, because
  // an uneven dim moves as whole chunks.
  void Shift(const void* in, void* out, int64_t count, DType dtype, int by = 1, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kShift,
         .in = in,
         .out = out,
         .count = count,
         .dtype = dtype,
         .peer = (by % size() + size()) % size(),
         .site = SiteText(loc)});
  }
  // AllGather and AllToAll with uneven pieces, which may be empty. Pieces are contiguous, in rank order.
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
  // A send may block until it is received, so two ranks that send to each other must use Start.
  void Send(const void* data, int64_t count, DType dtype, int to, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kSend, .in = data, .count = count, .dtype = dtype, .peer = to, .site = SiteText(loc)});
  }
  void Recv(void* data, int64_t count, DType dtype, int from, Loc loc = Loc::current()) {
    Run({.op = CollectiveOp::kRecv, .out = data, .count = count, .dtype = dtype, .peer = from, .site = SiteText(loc)});
  }

  // The calls above as values. Run returns when the call is done. Start returns at once. In a group that is not stream
  // ordered, started collectives run in order on the group's communication thread, and sends and receives on one thread
  // each. In a stream-ordered group all run in the stream. Spans and memory must stay valid until the work is done.
  void Run(const Collective& call);
  Work Start(const Collective& call);
  // Makes the call in the order of the device's work, so that work issued later sees the result. In a stream-ordered
  // group it returns at once, and memory must stay valid until the stream is past the call. Its error is thrown by the
  // group's next call and by a wait for the device. In other groups issued work is done on return, so this is Run.
  void Enqueue(const Collective& call);
  // Enqueues several calls. Requires that none reads the output of another. A group that can joins them into one.
  void EnqueueAll(std::span<const Collective> calls);
  virtual bool is_stream_ordered() const { return false; }
  // Whether gathers, reduce-scatters and exchanges may have several blocks, in each of which the pieces of all ranks
  // follow one another. Other groups take one block.
  virtual bool takes_blocks() const { return false; }

  // Makes every call on this group throw AbortedError, including calls that wait now, on this rank and if possible on
  // the others. Thread-safe.
  virtual void Abort(const std::string& reason) = 0;

  // A call fails if it is not done after this time. The default is 300 s; dist.timeout_s sets it.
  void set_timeout(std::chrono::milliseconds timeout) { timeout_ = timeout; }
  std::chrono::milliseconds timeout() const { return timeout_; }

  // This rank's calls since the last reset, per op.
  CallCount count(CollectiveOp op) const;
  void ResetCounts();

  // Requires that no call has been made. A mesh gives one recorder to all its groups.
  void set_recorder(std::shared_ptr<CallRecorder> recorder);
  const CallRecorder& recorder() const { return *recorder_; }
  // Called with the error text before a call throws because a rank is late, has ended or makes another call. It runs in
  // the thread that runs the call. Requires that no call has been made.
  using FailureHandler = std::function<void(const std::string& error)>;
  void set_failure_handler(FailureHandler handler) { on_failure_ = std::move(handler); }
  // For tests of failures (collective_fault.h). The filter sees each call of Run and Enqueue before it is made, and may
  // change it; false drops it. It also sees each recorded call when a replay makes it, but can neither change nor drop
  // it. Requires that no call has been made.
  using CallFilter = std::function<bool(const ProcessGroup& group, Collective& call)>;
  void set_call_filter(CallFilter filter) { call_filter_ = std::move(filter); }
  // For tests: recorded calls begin and end up to this much late on the device, by random times.
  void set_call_delay(std::chrono::microseconds most) { call_delay_ = most; }
  std::chrono::microseconds call_delay() const { return call_delay_; }
  // Returns the number of the last collective, from 1. Only for the thread that calls the collectives.
  uint64_t sequence() const { return sequence_; }

  // Operations on the group's device for the rows of collectives: strided copies (rows of `bytes`) and zeros, in order
  // with the group's calls, and allocation. These defaults work on the CPU.
  virtual void CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                        int64_t rows) const;
  virtual void Zero(void* data, int64_t bytes) const;
  virtual BufferPtr Allocate(size_t bytes) const { return AllocateCpu(bytes); }
  // For sums whose terms are sent as bf16 (core/runtime/wire_math.h).
  virtual void Narrow(BF16* to, const float* from, int64_t count) const;
  virtual void Widen(float* to, const BF16* from, int64_t count) const;
  virtual void SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) const;

 protected:
  // `rank` is the position of this rank in `ranks`.
  ProcessGroup(std::string name, int rank, std::vector<int> ranks, DeviceKind kind);

  // Runs a call that has been checked. Throws if it is not done by the deadline. Collectives come one at a time,
  // numbered from 1 by `sequence`. A send and a receive may run concurrently with them and are numbered per peer and
  // direction. The group is unusable after a throw.
  virtual void Execute(const Collective& call, uint64_t sequence, Deadline deadline) = 0;

  // For stream-ordered groups: puts the call into the device's current stream and returns. When the stream reaches the
  // call it is run, by RunNow if it is work of the host. Then Finished must be called once, from any thread.
  virtual void Issue(std::shared_ptr<const IssuedCall> issued);
  // For groups that join calls: issues all of them as one. If it throws, it must not have called Finished for any of
  // them.
  virtual void IssueTogether(std::span<const std::shared_ptr<const IssuedCall>> issued);
  virtual bool joins_calls() const { return false; }
  // For stream-ordered groups: whether the stream is being recorded. Recorded calls get their numbers at each replay.
  virtual bool IsRecording() const { return false; }
  // Must be called before a replay makes a recorded call. Counts the call and returns its number. Throws the error that
  // a call of the group would throw.
  uint64_t Replayed(const Collective& call);
  CallRecord RecordOf(const Collective& call, uint64_t sequence) const;
  // Executes the call with a record and a deadline. Throws Error or AbortedError, which names the call.
  void RunNow(const Collective& call, uint64_t sequence);
  // The parts of RunNow, for an Issue that does not wait. FailureOf calls the failure handler and returns the exception
  // to throw.
  uint64_t BeginRecord(const Collective& call, uint64_t sequence);
  void FinishRecord(uint64_t ticket) { recorder_->Finish(ticket); }
  std::exception_ptr FailureOf(const Collective& call, uint64_t sequence, const std::exception& e);
  // `error` is null on success. Every later call throws the first error.
  void Finished(const IssuedCall& issued, std::exception_ptr error);
  void FailLater(std::exception_ptr error);  // every later call throws it, unless there is an earlier error
  CallRecorder& own_recorder() const { return *recorder_; }
  // Adds bytes to count(op). Thread-safe.
  void CountTraffic(CollectiveOp op, int64_t sent, int64_t received);
  // Waits for calls in the background and in streams. The destructor of a class that implements Execute must call it
  // first.
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
  std::chrono::microseconds call_delay_{};
  uint64_t sequence_ = 0;
  std::vector<uint64_t> sent_, received_;  // per peer
  struct Counter {
    std::atomic<int64_t> calls{0}, bytes{0}, sent{0}, received{0};
  };
  std::array<Counter, kNumCollectiveOps> counts_;
  std::array<std::unique_ptr<Lane>, 3> lanes_;  // collectives, sends, receives
  std::mutex in_stream_mutex_;                  // protects the members below
  std::condition_variable stream_empty_;
  int in_stream_ = 0;                   // calls that were issued and are not finished
  std::exception_ptr in_stream_error_;  // the error of the first failed call
};

}  // namespace weft
