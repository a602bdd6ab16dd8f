#include "weft/dist/group/collective_fault.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <iterator>
#include <thread>

#include "weft/core/host/message.h"
#include "weft/core/testing/fault.h"

namespace weft {
namespace {

constexpr const char* kActions[] = {"kill", "stop", "hang", "throw", "skip", "shape", "dtype", "order", "delay"};

// The other type has the same size, so that the transfer stays within the caller's memory.
DType Other(DType dtype) {
  switch (dtype) {
    case DType::kF64:
      return DType::kI64;
    case DType::kI64:
      return DType::kF64;
    case DType::kF32:
      return DType::kI32;
    case DType::kI32:
      return DType::kF32;
    case DType::kBF16:
      return DType::kF16;
    case DType::kF16:
      return DType::kBF16;
    case DType::kU8:
      return DType::kBool;
    case DType::kBool:
      return DType::kU8;
  }
  return dtype;
}

void Tell(const std::string& action, const ProcessGroup& group, const Collective& call) {
  auto now = std::chrono::system_clock::now().time_since_epoch();
  PrintStderr("fault: rank {} pid {} at {} since 1970: {} {} #{} on {}\n", group.ranks()[size_t(group.rank())],
              getpid(), std::chrono::nanoseconds(now).count(), action, Name(call.op), group.sequence() + 1,
              group.name());
  std::fflush(stderr);
}

}  // namespace

std::shared_ptr<CollectiveFault> CollectiveFault::FromEnvironment() {
  std::optional<WantedFault> wanted = FaultWantedAt("collective");
  return wanted ? std::make_shared<CollectiveFault>(wanted->action, wanted->nth) : nullptr;
}

CollectiveFault::CollectiveFault(std::string action, int nth) : action_(std::move(action)), nth_(nth) {
  WEFT_CHECK(std::count(std::begin(kActions), std::end(kActions), action_) == 1,
             fmt::format("WEFT_FAULT: a collective has no action \"{}\"", action_));
}

bool CollectiveFault::Change(const ProcessGroup& group, Collective& call) {
  if (IsPointToPoint(call.op)) return true;
  if (device_delay().count()) Pause();
  std::lock_guard lock(mutex_);
  if (held_ && held_->group == &group) {
    bool alike = call.op == held_->op && call.dtype == held_->dtype && call.count == held_->count;
    if (!alike) held_.reset();
    return !alike;  // held calls are not made later, because a group whose ranks make different calls is unusable
  }
  return ++made_ == nth_ && !device_delay().count() ? Begin(group, call) : true;
}

std::chrono::microseconds CollectiveFault::device_delay() const {
  return std::chrono::microseconds(action_ == "delay" ? nth_ : 0);
}

void CollectiveFault::Pause() {
  std::chrono::microseconds time;
  {
    std::lock_guard lock(mutex_);
    time = std::chrono::microseconds(std::uniform_int_distribution<int>(0, nth_)(draw_));
  }
  std::this_thread::sleep_for(time);
}

bool CollectiveFault::Begin(const ProcessGroup& group, Collective& call) {
  Tell(action_, group, call);
  if (action_ == "kill") raise(SIGKILL);
  if (action_ == "stop") raise(SIGSTOP);
  if (action_ == "hang") std::this_thread::sleep_for(std::chrono::hours(1));
  if (action_ == "throw") Fail("the error that WEFT_FAULT asks for");
  if (action_ == "order") held_ = {&group, call.op, call.dtype, call.count};
  if (action_ == "shape") call.count--;
  if (action_ == "dtype") call.dtype = Other(call.dtype);
  return action_ != "skip" && action_ != "order";
}

}  // namespace weft
