#include "weft/dist/group/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <numeric>
#include <utility>

#include "weft/dist/net/rank_list.h"
#include "weft/dist/signals/hang_guard.h"

namespace weft {
namespace {

using nccl::Type;

// Returns NCCL's element type. NCCL has none for bools, which are bytes of 0 and 1.
Type TypeOf(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return Type::kF64;
    case DType::kF32:
      return Type::kF32;
    case DType::kBF16:
      return Type::kBF16;
    case DType::kF16:
      return Type::kF16;
    case DType::kI64:
      return Type::kI64;
    case DType::kI32:
      return Type::kI32;
    case DType::kU8:
    case DType::kBool:
      return Type::kU8;
  }
  Fail("a dtype that NCCL's groups do not know");
}

nccl::Reduction ReductionOf(const Collective& call) {
  if (call.reduce == ReduceOp::kMin) return nccl::Reduction::kMin;
  bool max = call.reduce == ReduceOp::kMax || call.dtype == DType::kBool;  // a sum of bools is "or"
  return max ? nccl::Reduction::kMax : nccl::Reduction::kSum;
}

size_t BytesOf(const Collective& call, int64_t count) { return size_t(count) * SizeOf(call.dtype); }

// The bytes that this rank sends to and receives from each rank in an exchange.
struct Pieces {
  std::vector<size_t> sends, receives;
};

Pieces PiecesOf(const Collective& c, int ranks, int me) {
  Pieces pieces{std::vector<size_t>(size_t(ranks)), std::vector<size_t>(size_t(ranks))};
  for (size_t r = 0; r < size_t(ranks); r++) {
    if (c.op == CollectiveOp::kAllToAll) pieces.sends[r] = pieces.receives[r] = BytesOf(c, c.count);
    if (c.op == CollectiveOp::kAllToAllV) pieces.sends[r] = BytesOf(c, c.send_counts[r]);
    if (c.op == CollectiveOp::kAllGatherV) pieces.sends[r] = BytesOf(c, c.count);
    if (c.op == CollectiveOp::kAllToAllV || c.op == CollectiveOp::kAllGatherV)
      pieces.receives[r] = BytesOf(c, c.recv_counts[r]);
  }
  if (c.op == CollectiveOp::kShift) {
    pieces.sends[size_t((me + c.peer) % ranks)] = BytesOf(c, c.count);
    pieces.receives[size_t((me - c.peer + ranks) % ranks)] = BytesOf(c, c.count);
  }
  return pieces;
}

// In a gather all ranks get the same piece of the input. In an exchange or shift each rank has a piece of its own.
void CopyOwn(const Collective& c, const Pieces& pieces, int me, StreamedDevice& device) {
  auto before = [me](const std::vector<size_t>& bytes) {
    return std::accumulate(bytes.begin(), bytes.begin() + me, size_t{0});
  };
  auto* in = static_cast<const char*>(c.in) + (c.op == CollectiveOp::kAllGatherV ? 0 : before(pieces.sends));
  device.Copy(static_cast<char*>(c.out) + before(pieces.receives), in, pieces.receives[size_t(me)]);
}

}  // namespace

NcclGroup::NcclGroup(std::string name, int rank, std::vector<int> ranks, StreamedDevice& device,
                     std::shared_ptr<NcclCommunicator> comm, std::shared_ptr<ReplayWatch> replays, bool one_host)
    : StreamedGroup(std::move(name), rank, std::move(ranks), device),
      comm_(std::move(comm)),
      one_host_(one_host),
      word_(device.Allocate(sizeof(float))),
      replays_(std::move(replays)),
      watch_(device, [this] { return Fault(); }) {
  Zero(word_->data(), sizeof(float));
  if (comm_) track_.emplace(replays_, static_cast<ReplayedGroup&>(*this));
}

// A rank that unwinds will not make the calls that its peers wait for, so it ends pending replays. First it waits
// for their end, which comes if the other ranks still run, because nothing can end a gather by copy engines.
NcclGroup::~NcclGroup() {
  constexpr std::chrono::seconds kMost{1};
  if (track_ && track_->IsUnderWay() && std::uncaught_exceptions() > 0 && !replays_->Drain(kMost))
    replays_->EndAll(fmt::format("rank {} left group \"{}\" by an exception", rank(), name()));
  StopLanes();
}

void NcclGroup::Abort(const std::string& reason) {
  SetReason(reason);
  watch_.End("aborted: " + reason);
  EndCalls();
}

// Copies first, because the abort of kernels may block.
void NcclGroup::EndCalls() {
  if (std::shared_ptr<NcclCopies> copies = this->copies()) copies->Abort();
  if (comm_) comm_->Abort();
}

std::string NcclGroup::Fault() const {
  std::string fault = comm_ ? comm_->AsyncError() : "";
  std::shared_ptr<NcclCopies> copies = this->copies();
  return fault.empty() && copies ? copies->comm().AsyncError() : fault;
}

std::shared_ptr<NcclCopies> NcclGroup::copies() const {
  std::lock_guard lock(copies_mutex_);
  return copies_;
}

HangGuard NcclGroup::Guard(const std::string& call) const {
  constexpr std::chrono::milliseconds kMost{60'000};
  return {fmt::format("rank {}", ranks()[size_t(rank())]),
          fmt::format("group \"{}\": {} (parallel.gather=kernels does without)", name(), call),
          std::min(timeout(), kMost)};
}

absl::Status NcclGroup::MayCopy() const {
  if (!comm_) return absl::FailedPreconditionError(fmt::format("group \"{}\" has one rank", name()));
  if (!one_host_)
    return absl::FailedPreconditionError(
        fmt::format("the ranks of group \"{}\" are on several hosts, and copy engines reach one host only", name()));
  return comm_->library().HasWindows();
}

// The new communicator has the same ranks in the same order.
absl::Status NcclGroup::ConnectCopies() try {
  if (copies()) return absl::OkStatus();
  device().Synchronize();  // NCCL allows no pending call meanwhile
  nccl::Config config;
  config.max_ctas = kNcclCopyCtas;
  config.cta_policy = nccl::kCtaPolicyZero;
  config.split_share = 0;
  nccl::Communicator* made = nullptr;
  HangGuard guard = Guard("ncclCommSplit for gathers by copy engines");
  std::unique_lock lock = comm_->Lock();
  comm_->library().Check(comm_->library().CommSplit(comm_->get(), 0, rank(), &made, &config), "ncclCommSplit",
                         comm_->get());
  auto comm = std::make_shared<NcclCommunicator>(comm_->shared_library(), made, NcclCommunicator::Engine::kCopies);
  replays_->set_endless();
  std::lock_guard copies_lock(copies_mutex_);
  copies_ = std::make_shared<NcclCopies>(std::move(comm), device(), rank(), size());
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

void NcclGroup::IssueTogether(Issued issued) {
  if (issued.empty()) return;
  if (IsRecording()) return Record(issued);
  auto deadline = std::chrono::steady_clock::now() + TimeoutOf(issued.front()->call);
  std::vector<uint64_t> tickets;
  for (const auto& call : issued) tickets.push_back(BeginRecord(call->call, call->sequence));
  try {
    PutAll(issued, deadline);
  } catch (const std::exception& e) {
    std::rethrow_exception(FailureOf(issued.front()->call, issued.front()->sequence, e));
  }
  std::vector<std::shared_ptr<const IssuedCall>> calls(issued.begin(), issued.end());
  watch_.Add(deadline, [this, calls = std::move(calls), tickets = std::move(tickets)](std::exception_ptr error) {
    if (error) error = ErrorOf(calls.front()->call, calls.front()->sequence, error);
    for (size_t i = 0; i < calls.size(); i++) {
      if (!error) FinishRecord(tickets[i]);
      Finished(*calls[i], error);
    }
    if (!error) return;
    // A wait for the device gets the error, and calls still in the streams end. The abort may take long, so it comes
    // last.
    device().SetFailure(error);
    EndCalls();
  });
}

// Replays make the calls, and the ReplayWatch watches them.
void NcclGroup::Record(Issued issued) {
  const Collective& first = issued.front()->call;
  auto put = [&] { PutAll(issued, std::chrono::steady_clock::now() + TimeoutOf(first)); };
  try {
    if (track_) {
      own_recorder().set_replays([watch = std::weak_ptr(replays_), recorder = &recorder()] {
        std::shared_ptr<ReplayWatch> replays = watch.lock();
        return replays ? replays->Records(recorder) : std::vector<CallRecord>();
      });
      track_->Record(issued, put);
    } else {
      std::vector<std::shared_ptr<const IssuedCall>> calls(issued.begin(), issued.end());
      device().BeforeReplay([this, calls = std::move(calls)] {
        for (const auto& call : calls) Replayed(call->call);
      });
      put();
    }
  } catch (const std::exception& e) {
    std::rethrow_exception(FailureOf(first, 0, e));
  }
  for (const auto& call : issued) Finished(*call, nullptr);
}

// A wait for the device gets the error. The watch then ends the calls of all groups.
void NcclGroup::ReplayFailed(const Collective& call, uint64_t sequence, std::exception_ptr error) {
  error = ErrorOf(call, sequence, error);
  FailLater(error);
  device().SetFailure(std::move(error));
}

void NcclGroup::CheckAborted() {
  std::lock_guard lock(reason_mutex_);
  if (!reason_.empty()) throw AbortedError("aborted: " + reason_);
}

// Returns the error of a failed call. Only the first one is the group's failure; later calls fail because of it.
std::exception_ptr NcclGroup::ErrorOf(const Collective& call, uint64_t sequence, std::exception_ptr error) {
  try {
    CheckAborted();
    std::rethrow_exception(error);
  } catch (const std::exception& e) {
    error = FailureOf(call, sequence, e);
  }
  const std::string reason = "an earlier call of this group failed";
  SetReason(reason);
  watch_.End(reason);
  return error;
}

void NcclGroup::SetReason(const std::string& reason) {
  std::lock_guard lock(reason_mutex_);
  if (reason_.empty()) reason_ = reason;
}

void NcclGroup::Execute(const Collective& call, uint64_t, Deadline deadline) {
  CheckAborted();
  if (size() == 1) return Alone(call);
  Call(Connects(call), deadline, [&] { Put(call); });
}

void NcclGroup::PutAll(Issued issued, Deadline deadline) {
  std::shared_ptr<NcclCopies> copies = this->copies();
  if (!copies || !copies->Takes(issued)) return PutByKernels(issued, deadline);
  CheckAborted();
  copies->Put(issued);
}

// NCCL joins the calls between GroupStart and GroupEnd into one.
void NcclGroup::PutByKernels(Issued issued, Deadline deadline) {
  if (issued.size() == 1) return Execute(issued.front()->call, issued.front()->sequence, deadline);
  CheckAborted();
  if (size() == 1) {
    for (const auto& call : issued) Alone(call->call);
    return;
  }
  bool connects = false;
  for (const auto& call : issued) connects |= Connects(call->call);
  Call(connects, deadline, [&] {
    const NcclLibrary& nccl = comm_->library();
    nccl.Check(nccl.GroupStart(), "ncclGroupStart", comm_->get());
    std::exception_ptr error;
    try {
      for (const auto& call : issued) Put(call->call);
    } catch (...) {
      error = std::current_exception();
    }
    nccl::Result end = nccl.GroupEnd();  // always called, otherwise later calls would never run
    if (error) std::rethrow_exception(error);
    nccl.Check(end, "ncclGroupEnd", comm_->get());
  });
}

bool NcclGroup::Connects(const Collective& call) {
  auto size = int(std::bit_width(uint64_t(BytesOf(call, call.count))));
  return connected_.emplace(call.op, call.peer, size).second;
}

// A call of a new kind connects ranks, and NCCL has no deadline for that. If a peer fails before it reaches that call,
// no abort can end it, because the communicator is locked meanwhile. So a HangGuard bounds it.
void NcclGroup::Call(bool connects, Deadline deadline, absl::FunctionRef<void()> put) {
  std::unique_lock lock = comm_->Lock();
  std::optional<HangGuard> guard;
  auto left = std::chrono::ceil<std::chrono::milliseconds>(deadline - std::chrono::steady_clock::now());
  if (connects)
    guard.emplace(fmt::format("rank {}", ranks()[size_t(rank())]),
                  fmt::format("NCCL, which connects group \"{}\"", name()), left);
  put();
}

void NcclGroup::Put(const Collective& call) {
  switch (call.op) {
    case CollectiveOp::kAllReduce:
    case CollectiveOp::kReduceScatter:
    case CollectiveOp::kReduce:
    case CollectiveOp::kBarrier:
      return Reduce(call);
    case CollectiveOp::kAllGather:
    case CollectiveOp::kBroadcast:
    case CollectiveOp::kSend:
    case CollectiveOp::kRecv:
      return Move(call);
    case CollectiveOp::kAllToAll:
    case CollectiveOp::kAllToAllV:
    case CollectiveOp::kAllGatherV:
    case CollectiveOp::kShift:
      return Exchange(call);
  }
}

// In a group of one rank the result of every call is its input.
void NcclGroup::Alone(const Collective& call) {
  if (call.in != call.out) device().Copy(call.out, call.in, size_t(OutputBytes(call, 1, 0)));
}

void NcclGroup::Reduce(const Collective& c) {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device().Handle();
  auto count = size_t(c.count);
  Type type = TypeOf(c.dtype);
  nccl::Reduction op = ReductionOf(c);
  nccl::Result result = nccl::Result::kSuccess;
  if (c.op == CollectiveOp::kAllReduce)
    result = nccl.AllReduce(c.in, c.out, count, type, op, comm, stream);
  else if (c.op == CollectiveOp::kReduceScatter)
    result = nccl.ReduceScatter(c.in, c.out, count, type, op, comm, stream);
  else if (c.op == CollectiveOp::kReduce)
    result = nccl.Reduce(c.in, c.out, count, type, op, c.peer, comm, stream);
  else
    result = nccl.AllReduce(word_->data(), word_->data(), 1, Type::kF32, nccl::Reduction::kMax, comm, stream);
  nccl.Check(result, Name(c.op), comm);
}

void NcclGroup::Move(const Collective& c) {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device().Handle();
  size_t bytes = BytesOf(c, c.count);
  nccl::Result result = nccl::Result::kSuccess;
  if (c.op == CollectiveOp::kAllGather)
    result = nccl.AllGather(c.in, c.out, bytes, Type::kU8, comm, stream);
  else if (c.op == CollectiveOp::kBroadcast)
    result = nccl.Broadcast(c.in, c.out, bytes, Type::kU8, c.peer, comm, stream);
  else if (c.op == CollectiveOp::kSend)
    result = nccl.Send(c.in, bytes, Type::kU8, c.peer, comm, stream);
  else
    result = nccl.Recv(c.out, bytes, Type::kU8, c.peer, comm, stream);
  nccl.Check(result, Name(c.op), comm);
}

// Moves all pieces in one NCCL group call. A rank's piece for itself is a copy.
void NcclGroup::Exchange(const Collective& c) {
  const NcclLibrary& nccl = comm_->library();
  nccl::Communicator* comm = comm_->get();
  nccl::Stream stream = device().Handle();
  Pieces pieces = PiecesOf(c, size(), rank());
  auto* in = static_cast<const char*>(c.in);
  auto* out = static_cast<char*>(c.out);
  size_t sent = 0, received = 0;
  nccl::Result first = nccl.GroupStart();
  auto call = [&first](nccl::Result result) {
    if (first == nccl::Result::kSuccess) first = result;
  };
  for (int r = 0; r < size(); r++) {
    size_t send = pieces.sends[size_t(r)], receive = pieces.receives[size_t(r)];
    if (r != rank() && send) call(nccl.Send(in + sent, send, Type::kU8, r, comm, stream));
    if (r != rank() && receive) call(nccl.Recv(out + received, receive, Type::kU8, r, comm, stream));
    if (c.op != CollectiveOp::kAllGatherV) sent += send;
    received += receive;
  }
  call(nccl.GroupEnd());  // always called, otherwise later calls would never run
  nccl.Check(first, Name(c.op), comm);
  CopyOwn(c, pieces, rank(), device());
}

// The most multiprocessors that a group's calls use. The kernels of a few groups, which wait for other ranks in no
// fixed order, must all fit on a GPU at once (core/compile/overlap.h).
constexpr int kMostCtas = 32;

// Connects all ranks. Rank 0 makes the id with which they find each other.
void NcclGroupFactory::Meet() {
  nccl::UniqueId id{};
  if (bootstrap_.rank() == 0) library_->Check(library_->GetUniqueId(&id), "NCCL: a name for the ranks' meeting");
  std::string name = bootstrap_.AllGather({id.bytes, bootstrap_.rank() == 0 ? sizeof(id.bytes) : 0}).front();
  std::memcpy(id.bytes, name.data(), std::min(name.size(), sizeof(id.bytes)));
  nccl::Config config;
  config.max_ctas = kMostCtas;
  nccl::Communicator* comm = nullptr;
  HangGuard guard(fmt::format("rank {}", bootstrap_.rank()), "ncclCommInitRankConfig", bootstrap_.timeout());
  library_->Check(library_->CommInitRankConfig(&comm, bootstrap_.world_size(), id, bootstrap_.rank(), &config),
                  fmt::format("NCCL cannot connect the {} ranks", bootstrap_.world_size()));
  world_ = std::make_shared<NcclCommunicator>(library_, comm);
  hosts_ = bootstrap_.AllGather(bootstrap_.host());
}

std::shared_ptr<NcclCommunicator> NcclGroupFactory::Split(const std::string& name, const std::vector<int>& ranks,
                                                          int rank) {
  nccl::Config config;
  config.max_ctas = kMostCtas;
  config.split_share = 0;  // calls of communicators with shared resources would wait for each other
  nccl::Communicator* comm = nullptr;
  int color = ranks.size() > 1 ? *std::min_element(ranks.begin(), ranks.end()) : nccl::kNoColor;
  HangGuard guard(fmt::format("rank {}", bootstrap_.rank()), "ncclCommSplit", bootstrap_.timeout());
  library_->Check(library_->CommSplit(world_->get(), color, rank, &comm, &config),
                  fmt::format("group \"{}\": NCCL cannot connect ranks {}", name, RankList(ranks)), world_->get());
  return comm ? std::make_shared<NcclCommunicator>(library_, comm) : nullptr;
}

std::unique_ptr<ProcessGroup> NcclGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                     DeviceKind kind) {
  WEFT_CHECK(kind == device_.device().kind, fmt::format("group \"{}\": NCCL moves {} tensors only, not {}", name,
                                                        Name(device_.device().kind), Name(kind)));
  auto it = std::find(ranks.begin(), ranks.end(), bootstrap_.rank());
  WEFT_CHECK(it != ranks.end(),
             fmt::format("group \"{}\": rank {} asks for a group that it is not in", name, bootstrap_.rank()));
  auto rank = int(it - ranks.begin());
  if (!world_) Meet();
  // The first group of all ranks reuses the communicator of the rendezvous.
  bool whole = int(ranks.size()) == bootstrap_.world_size() && std::is_sorted(ranks.begin(), ranks.end());
  bool take = whole && !std::exchange(world_taken_, world_taken_ || whole);
  bool one_host = std::ranges::all_of(ranks, [&](int r) { return hosts_[size_t(r)] == bootstrap_.host(); });
  return std::make_unique<NcclGroup>(name, rank, ranks, device_, take ? world_ : Split(name, ranks, rank), replays_,
                                     one_host);
}

}  // namespace weft
