#include "weft/dist/group/process_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <numeric>

#include "weft/core/runtime/wire_math.h"
#include "weft/dist/net/rank_list.h"

namespace weft {

ProcessGroup::ProcessGroup(std::string name, int rank, std::vector<int> ranks, DeviceKind kind)
    : name_(std::move(name)),
      rank_(rank),
      ranks_(std::move(ranks)),
      kind_(kind),
      sent_(ranks_.size()),
      received_(ranks_.size()) {
  WEFT_CHECK(rank_ >= 0 && rank_ < size(),
             fmt::format("group \"{}\": rank {} is not in a group of {}", name_, rank_, size()));
  set_recorder(std::make_shared<CallRecorder>());
  for (auto& lane : lanes_)
    lane = std::make_unique<Lane>([this](const Collective& call, uint64_t sequence) { RunNow(call, sequence); });
}

ProcessGroup::~ProcessGroup() = default;

void ProcessGroup::StopLanes() {
  // A rank that unwinds will not make the calls that its peers wait for, so it aborts pending calls.
  bool busy = false;
  {
    std::lock_guard lock(in_stream_mutex_);
    busy = in_stream_ > 0;
  }
  for (auto& lane : lanes_) busy |= lane && !lane->idle();
  if (busy && std::uncaught_exceptions() > 0)
    Abort(fmt::format("rank {} left group \"{}\" by an exception", rank_, name_));
  for (auto& lane : lanes_) lane.reset();
  std::unique_lock lock(in_stream_mutex_);
  stream_empty_.wait(lock, [this] { return in_stream_ == 0; });
}

void ProcessGroup::set_recorder(std::shared_ptr<CallRecorder> recorder) {
  recorder_ = std::move(recorder);
  record_group_ = recorder_->AddGroup(name_, ranks_);
}

CallCount ProcessGroup::count(CollectiveOp op) const {
  const Counter& counter = counts_[size_t(op)];
  auto read = [](const std::atomic<int64_t>& n) { return n.load(std::memory_order_relaxed); };
  return {read(counter.calls), read(counter.bytes), read(counter.sent), read(counter.received)};
}

void ProcessGroup::ResetCounts() {
  for (Counter& counter : counts_) counter.calls = counter.bytes = counter.sent = counter.received = 0;
}

void ProcessGroup::CopyRows(void* to, int64_t to_stride, const void* from, int64_t from_stride, int64_t bytes,
                            int64_t rows) const {
  if (bytes == to_stride && bytes == from_stride) {  // one block
    bytes *= rows;
    rows = 1;
  }
  if (bytes == 0) return;
  for (int64_t i = 0; i < rows; i++)
    std::memcpy(static_cast<char*>(to) + i * to_stride, static_cast<const char*>(from) + i * from_stride,
                size_t(bytes));
}

void ProcessGroup::Zero(void* data, int64_t bytes) const {
  if (bytes > 0) std::memset(data, 0, size_t(bytes));
}

void ProcessGroup::Narrow(BF16* to, const float* from, int64_t count) const { NarrowOnHost(to, from, count); }

void ProcessGroup::Widen(float* to, const BF16* from, int64_t count) const { WidenOnHost(to, from, count); }

void ProcessGroup::SumChunks(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) const {
  SumChunksOnHost(to, dtype, chunks, num_chunks, count);
}

void ProcessGroup::Check(const Collective& call) const {
  auto check = [&](bool ok, const char* what) {
    WEFT_CHECK(ok, fmt::format("{} on group \"{}\" at {}: {}", ToString(call), name_, call.site, what));
  };
  check(call.count >= 0, "the count is negative");
  check(call.peer >= 0 && call.peer < size(), "the peer is not a rank of the group");
  bool blocks = takes_blocks() && Traits(call.op).pieces && !Traits(call.op).own_counts;
  check(call.blocks == 1 || (call.blocks > 1 && blocks), "expected one block");
  if (IsPointToPoint(call.op)) check(call.peer != rank_, "a rank cannot send to itself");
  auto counts = [&](std::span<const int64_t> list) {
    check(int(list.size()) == size(), "one count per rank is needed");
    for (int64_t n : list) check(n >= 0, "a count is negative");
  };
  if (call.op == CollectiveOp::kAllGatherV || call.op == CollectiveOp::kAllToAllV) counts(call.recv_counts);
  if (call.op == CollectiveOp::kAllToAllV) counts(call.send_counts);
}

void ProcessGroup::Count(const Collective& call) {
  Counter& counter = counts_[size_t(call.op)];
  counter.calls.fetch_add(1, std::memory_order_relaxed);
  counter.bytes.fetch_add(InputBytes(call, size()), std::memory_order_relaxed);
}

void ProcessGroup::CountTraffic(CollectiveOp op, int64_t sent, int64_t received) {
  Counter& counter = counts_[size_t(op)];
  counter.sent.fetch_add(sent, std::memory_order_relaxed);
  counter.received.fetch_add(received, std::memory_order_relaxed);
}

uint64_t ProcessGroup::NextSequence(const Collective& call) {
  if (call.op == CollectiveOp::kSend) return ++sent_[size_t(call.peer)];
  if (call.op == CollectiveOp::kRecv) return ++received_[size_t(call.peer)];
  return ++sequence_;
}

uint64_t ProcessGroup::BeginRecord(const Collective& call, uint64_t sequence) {
  return recorder_->Begin(record_group_, sequence, call);
}

std::exception_ptr ProcessGroup::FailureOf(const Collective& call, uint64_t sequence, const std::exception& e) {
  std::string where =
      fmt::format("{} #{} on group \"{}\" (rank {} of {}, global ranks {}){}{}", ToString(call), sequence, name_, rank_,
                  size(), RankList(ranks_), call.site.empty() ? "" : " at ", call.site);
  if (dynamic_cast<const AbortedError*>(&e))
    return std::make_exception_ptr(AbortedError(fmt::format("{}: {}", where, e.what())));
  std::string error = fmt::format("{}: {}\nlast collectives of this rank:{}", where, e.what(), recorder_->Describe(5));
  if (on_failure_) on_failure_(error);
  return std::make_exception_ptr(Error(error));
}

void ProcessGroup::RunNow(const Collective& call, uint64_t sequence) {
  uint64_t ticket = BeginRecord(call, sequence);
  auto timeout = call.timeout.count() ? call.timeout : timeout_;
  try {
    Execute(call, sequence, std::chrono::steady_clock::now() + timeout);
  } catch (const std::exception& e) {
    std::rethrow_exception(FailureOf(call, sequence, e));
  }
  FinishRecord(ticket);
}

void ProcessGroup::Run(const Collective& call) {
  if (call_filter_) [[unlikely]]
    return RunFiltered(call);
  RunUnfiltered(call);
}

void ProcessGroup::RunFiltered(Collective call) {
  if (call_filter_(*this, call)) RunUnfiltered(call);
}

void ProcessGroup::RunUnfiltered(const Collective& call) {
  if (is_stream_ordered()) return PutInStream(call).Wait();
  Check(call);
  Lane& lane = LaneOf(call.op);
  if (!lane.idle()) return Start(call).Wait();  // keeps the order of the calls
  Count(call);
  RunNow(call, NextSequence(call));
}

Work ProcessGroup::Start(const Collective& call) {
  if (is_stream_ordered()) return PutInStream(call);
  Check(call);
  Count(call);
  return LaneOf(call.op).Push(call, NextSequence(call));
}

void ProcessGroup::Enqueue(const Collective& call) {
  if (!is_stream_ordered()) return Run(call);
  Collective made = call;
  if (!call_filter_ || IsRecording() || call_filter_(*this, made)) PutInStream(made);
}

void ProcessGroup::EnqueueAll(std::span<const Collective> calls) {
  if (!is_stream_ordered() || !joins_calls()) {
    for (const Collective& call : calls) Enqueue(call);
    return;
  }
  std::vector<Collective> made;
  for (Collective call : calls)
    if (!call_filter_ || IsRecording() || call_filter_(*this, call)) made.push_back(call);
  PutTogether(made);
}

// Checks, counts and numbers a call that is about to be issued. It must be finished afterwards.
std::shared_ptr<const IssuedCall> ProcessGroup::Announce(const Collective& call) {
  Check(call);
  {
    std::lock_guard lock(in_stream_mutex_);
    if (in_stream_error_) std::rethrow_exception(in_stream_error_);
    in_stream_++;
  }
  uint64_t sequence = 0;
  if (!IsRecording()) {
    Count(call);
    sequence = NextSequence(call);
  }
  return std::make_shared<const IssuedCall>(call, sequence, Work());
}

Work ProcessGroup::PutInStream(const Collective& call) {
  std::shared_ptr<const IssuedCall> issued = Announce(call);
  try {
    Issue(issued);
  } catch (...) {
    Finished(*issued, std::current_exception());
    throw;
  }
  return issued->work;
}

void ProcessGroup::PutTogether(std::span<const Collective> calls) {
  std::vector<std::shared_ptr<const IssuedCall>> issued;
  try {
    for (const Collective& call : calls) issued.push_back(Announce(call));
    IssueTogether(issued);
  } catch (...) {
    for (const auto& call : issued) Finished(*call, std::current_exception());
    throw;
  }
}

void ProcessGroup::Issue(std::shared_ptr<const IssuedCall>) {
  Fail(fmt::format("group \"{}\" is declared stream ordered, and has no way to issue a call", name_));
}

void ProcessGroup::IssueTogether(std::span<const std::shared_ptr<const IssuedCall>>) {
  Fail(fmt::format("group \"{}\" is declared to join calls, and has no way to do it", name_));
}

uint64_t ProcessGroup::Replayed(const Collective& call) {
  {
    std::lock_guard lock(in_stream_mutex_);
    if (in_stream_error_) std::rethrow_exception(in_stream_error_);
  }
  if (Collective made = call; call_filter_) call_filter_(*this, made);
  Count(call);
  return NextSequence(call);
}

CallRecord ProcessGroup::RecordOf(const Collective& call, uint64_t sequence) const {
  return weft::RecordOf(record_group_, sequence, call);
}

void ProcessGroup::FailLater(std::exception_ptr error) {
  std::lock_guard lock(in_stream_mutex_);
  if (!in_stream_error_) in_stream_error_ = std::move(error);
}

void ProcessGroup::Finished(const IssuedCall& issued, std::exception_ptr error) {
  std::lock_guard lock(in_stream_mutex_);
  if (!in_stream_error_) in_stream_error_ = error;
  issued.work.Finish(std::move(error));
  if (--in_stream_ == 0) stream_empty_.notify_all();
}

}  // namespace weft
