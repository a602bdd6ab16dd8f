#include "weft/dist/group/gloo/gloo_group.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/dist/group/gloo/gloo_call.h"
#include "weft/dist/group/local/local_group.h"

namespace weft {

GlooGroup::GlooGroup(std::string name, int rank, std::vector<int> ranks, std::shared_ptr<GlooContext> context)
    : ProcessGroup(std::move(name), rank, std::move(ranks), DeviceKind::kCpu), context_(std::move(context)) {}

GlooGroup::~GlooGroup() {
  StopLanes();
  if (failed_ || std::uncaught_exceptions() > 0) return;
  try {
    Collective last;  // a barrier
    Call call(last, 0, std::chrono::steady_clock::now() + timeout(), collectives_);
    call.tag.step = 1;  // real calls have sequence numbers from 1, not 0
    Dispatch(call);
  } catch (const std::exception&) {  // another rank has already ended, and this rank has nothing pending
  }
}

void GlooGroup::Abort(const std::string& reason) {
  {
    std::lock_guard lock(reason_mutex_);
    if (reason_.empty()) reason_ = reason;
  }
  Close();
}

// The other ranks see closed connections. The waits of this rank must be aborted explicitly.
void GlooGroup::Close() {
  failed_ = true;
  context_->closeConnections();
  for (GlooChannel* channel : {&collectives_, &sends_, &recvs_}) channel->Abort();
}

GlooChannel& GlooGroup::ChannelOf(CollectiveOp op) {
  return op == CollectiveOp::kSend ? sends_ : op == CollectiveOp::kRecv ? recvs_ : collectives_;
}

void GlooGroup::Execute(const Collective& c, uint64_t sequence, Deadline deadline) {
  auto check_aborted = [this] {
    std::lock_guard lock(reason_mutex_);
    if (!reason_.empty()) throw AbortedError("aborted: " + reason_);
  };
  check_aborted();
  Call call(c, sequence, deadline, ChannelOf(c.op));
  try {
    Dispatch(call);
  } catch (const std::exception& e) {
    Close();  // gives the other ranks an error now instead of at their timeouts
    check_aborted();
    throw;
  }
}

std::unique_ptr<ProcessGroup> GlooGroupFactory::Make(const std::string& name, const std::vector<int>& ranks,
                                                     DeviceKind kind) {
  WEFT_CHECK(kind == DeviceKind::kCpu,
             fmt::format("group \"{}\": Gloo moves CPU tensors only, not {}", name, Name(kind)));
  auto it = std::find(ranks.begin(), ranks.end(), bootstrap_.rank());
  WEFT_CHECK(it != ranks.end(),
             fmt::format("group \"{}\": rank {} asks for a group that it is not in", name, bootstrap_.rank()));
  int rank = int(it - ranks.begin());
  try {
    // A group of one rank needs no network, but takes part in the exchange.
    auto context = std::make_shared<GlooContext>(rank, ranks, bootstrap_, connect_timeout_);
    if (ranks.size() == 1) return MakeSelfGroup(name, bootstrap_.rank(), kind);
    return std::make_unique<GlooGroup>(name, rank, ranks, std::move(context));
  } catch (const Error&) {
    throw;
  } catch (const std::exception& e) {
    Fail(fmt::format("group \"{}\": rank {} of {} cannot connect: {}", name, rank, ranks.size(), e.what()));
  }
}

}  // namespace weft
