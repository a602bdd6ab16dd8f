#include "weft/dist/group/nccl/nccl_group.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <utility>

#include "weft/dist/signals/hang_guard.h"

namespace weft {

NcclGroup::NcclGroup(std::string name, int rank, std::vector<int> ranks, StreamedDevice& device,
                     std::shared_ptr<NcclCommunicator> comm, std::shared_ptr<ReplayWatch> replays, std::string host)
    : StreamedGroup(std::move(name), rank, std::move(ranks), device),
      comm_(std::move(comm)),
      host_(std::move(host)),
      calls_(comm_, device, this->rank(), size()),
      replays_(std::move(replays)),
      watch_(device, [this] { return Fault(); }) {
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
  return fault.empty() && copies ? copies->comm()->AsyncError() : fault;
}

std::shared_ptr<NcclCopies> NcclGroup::copies() const {
  std::lock_guard lock(copies_mutex_);
  return copies_;
}

HangGuard NcclGroup::Guard(const std::string& call) const {
  constexpr std::chrono::milliseconds kMost{60'000};
  return {fmt::format("rank {}", ranks()[size_t(rank())]), fmt::format("group \"{}\": {}", name(), call),
          std::min(timeout(), kMost)};
}

absl::Status NcclGroup::MayHaveWindows() const {
  if (!comm_) return absl::FailedPreconditionError(fmt::format("group \"{}\" has one rank", name()));
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
  std::unique_lock lock = comm_->Lock();
  comm_->library().Check(comm_->library().CommSplit(comm_->get(), 0, rank(), &made, &config), "ncclCommSplit",
                         comm_->get());
  auto comm = std::make_shared<NcclCommunicator>(comm_->shared_library(), made);
  comm->set_endless();
  replays_->set_endless();
  std::lock_guard copies_lock(copies_mutex_);
  copies_ = std::make_shared<NcclCopies>(std::move(comm), device(), size());
  return absl::OkStatus();
} catch (const std::exception& e) {
  return absl::UnavailableError(e.what());
}

// Such a kernel may start when the kernel before it in the stream has no block left, whose writes it may not see yet. A
// fill is launched normally, so it starts after all of that.
void NcclGroup::Fence() {
  if (fence_) device().Fill(fence_->data(), 0, fence_->bytes());
}

void NcclGroup::AllowSymmetric() {
  if (!fence_ && comm_->library().version() < nccl::kSymmetricWaits) fence_ = device().Allocate(sizeof(uint32_t));
  comm_->set_endless();
  replays_->set_endless();
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
  if (size() == 1) return calls_.Put(call);
  Call(Connects(call), deadline, [&] {
    Fence();
    calls_.Put(call);
  });
}

void NcclGroup::PutAll(Issued issued, Deadline deadline) {
  std::shared_ptr<NcclCopies> copies = this->copies();
  if (!copies || !copies->Takes(issued)) return PutByKernels(issued, deadline);
  CheckAborted();
  copies->Put(issued);
}

void NcclGroup::PutByKernels(Issued issued, Deadline deadline) {
  if (issued.size() == 1) return Execute(issued.front()->call, issued.front()->sequence, deadline);
  CheckAborted();
  if (size() == 1) {
    for (const auto& call : issued) calls_.Put(call->call);
    return;
  }
  bool connects = false;
  for (const auto& call : issued) connects |= Connects(call->call);
  Call(connects, deadline, [&] {
    Fence();
    calls_.Join([&] {
      for (const auto& call : issued) calls_.Put(call->call);
    });
  });
}

bool NcclGroup::Connects(const Collective& call) {
  auto size = int(std::bit_width(uint64_t(call.count / call.blocks) * SizeOf(call.dtype)));
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

}  // namespace weft
