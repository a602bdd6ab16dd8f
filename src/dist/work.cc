#include "dist/work.h"

#include <fmt/format.h>

#include "core/base/error.h"

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

void Work::Finish(std::exception_ptr error) {
  std::lock_guard lock(state_->mutex);
  state_->done = true;
  state_->error = std::move(error);
  state_->changed.notify_all();
}

Lane::~Lane() {
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
    wake_.notify_all();
  }
  if (thread_.joinable()) thread_.join();
}

Work Lane::Push(std::function<void()> task) {
  Work work;
  pending_.fetch_add(1, std::memory_order_relaxed);
  std::lock_guard lock(mutex_);
  if (!thread_.joinable()) thread_ = std::thread([this] { Loop(); });
  queue_.emplace_back(std::move(task), work);
  wake_.notify_one();
  return work;
}

void Lane::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    wake_.wait(lock, [this] { return stop_ || !queue_.empty(); });
    if (queue_.empty()) return;
    auto [task, work] = std::move(queue_.front());
    queue_.pop_front();
    lock.unlock();
    std::exception_ptr error;
    try {
      task();
    } catch (...) {
      error = std::current_exception();
    }
    pending_.fetch_sub(1, std::memory_order_release);  // before Finish: a waiter may issue its next call directly
    work.Finish(std::move(error));
    lock.lock();
  }
}

}  // namespace weft
