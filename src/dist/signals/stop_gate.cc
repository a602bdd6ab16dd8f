#include "weft/dist/signals/stop_gate.h"

#include <chrono>
#include <utility>

namespace weft {
namespace {

// The rank that holds the gates may have ended. This is far longer than an agreement takes.
constexpr std::chrono::seconds kLongestHold{20};

}  // namespace

bool StopGate::Enter() {
  std::unique_lock lock(mutex_);
  if (first_) std::exchange(first_, nullptr)();
  if (!changed_.wait_for(lock, kLongestHold, [this] { return !held_; })) held_ = false;
  if (begun_ >= last_) return false;
  begun_++;
  return true;
}

void StopGate::OnFirst(std::function<void()> begun) {
  std::lock_guard lock(mutex_);
  first_ = std::move(begun);
}

int64_t StopGate::Hold() {
  std::lock_guard lock(mutex_);
  if (last_ != kNever) return last_;
  held_ = true;
  return begun_;
}

void StopGate::Release(int64_t last, const std::string& cause) {
  std::lock_guard lock(mutex_);
  if (last_ == kNever) {
    last_ = last;
    cause_ = cause;
  }
  held_ = false;
  changed_.notify_all();
}

void StopGate::Resume() {
  std::lock_guard lock(mutex_);
  held_ = false;
  changed_.notify_all();
}

std::string StopGate::cause() const {
  std::lock_guard lock(mutex_);
  return cause_;
}

}  // namespace weft
