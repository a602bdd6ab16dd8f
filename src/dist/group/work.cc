#include "weft/dist/group/work.h"

#include <fmt/format.h>

#include "weft/core/base/error.h"

namespace weft {

struct Work::State {
  mutable std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  std::exception_ptr error;
};

Work::Work() : state_(std::make_shared<State>()) {}

bool Work::Test() const {
  std::lock_guard lock(state_->mutex);
  return state_->done;
}

std::exception_ptr Work::error() const {
  std::lock_guard lock(state_->mutex);
  return state_->error;
}

void Work::Wait(std::chrono::milliseconds timeout) const {
  std::unique_lock lock(state_->mutex);
  auto done = [this] { return state_->done; };
  if (timeout.count() == 0)
    state_->changed.wait(lock, done);
  else
    WEFT_CHECK(state_->changed.wait_for(lock, timeout, done),
               fmt::format("Work::Wait: the collective is not done after {} ms", timeout.count()));
  if (state_->error) std::rethrow_exception(state_->error);
}

void Work::Finish(std::exception_ptr error) const {
  std::lock_guard lock(state_->mutex);
  state_->done = true;
  state_->error = std::move(error);
  state_->changed.notify_all();
}

// If only the lane holds the handle, only the lane can copy it, so the count cannot grow meanwhile.
bool Work::Recycle() const {
  if (state_.use_count() > 1) return false;
  std::lock_guard lock(state_->mutex);
  if (!state_->done) return false;
  state_->done = false;
  state_->error = nullptr;
  return true;
}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Lane::Slot& Lane::FreeSlot() {
  for (auto& slot : slots_)
    if (slot->work.Recycle()) return *slot;
  return *slots_.emplace_back(std::make_unique<Slot>());
}

Work Lane::Push(const Collective& call, uint64_t sequence) {
  pending_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  Slot& slot = FreeSlot();
  slot.call = call;
  slot.sequence = sequence;
  slot.site = call.site;
  slot.call.site = slot.site;  // the caller's text may be gone when the call runs
  slot.next = nullptr;
  (last_ ? last_->next : first_) = &slot;
  last_ = &slot;
  wake_.notify_one();
  return slot.work;
}

std::exception_ptr Lane::Run(const Slot& slot) const {
  try {
    run_(slot.call, slot.sequence);
  } catch (...) {
    return std::current_exception();
  }
  return nullptr;
}

void Lane::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || first_; });
    if (!first_) return;
    Slot& slot = *first_;
    first_ = slot.next;
    if (!first_) last_ = nullptr;
    lock.unlock();
    std::exception_ptr error = Run(slot);
    // Counts down before Finish, because a waiter may issue its next call directly.
    pending_.fetch_sub(1, std::memory_order_release);
    slot.work.Finish(std::move(error));  // afterwards the slot may be reused
    lock.lock();
  }
}

}  // namespace weft
