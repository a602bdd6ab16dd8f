// StreamDouble: a stream of a device double. It is a thread that runs its work in order.
#pragma once
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <mutex>
#include <random>
#include <thread>
#include <utility>

#include "weft/core/runtime/streams.h"

namespace weft::test {

class StreamDouble final : public StreamedDevice::Stream {
 public:
  // One piece of work in four starts up to `most_us` microseconds late. Work that relies on an order that was not
  // requested then gives wrong results.
  StreamDouble(int most_us, uint64_t seed) : most_us_(most_us), random_(seed), thread_([this] { Loop(); }) {}
  ~StreamDouble() override {
    {
      std::lock_guard lock(mutex_);
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  void Post(std::function<void()> task) {
    {
      std::lock_guard lock(mutex_);
      tasks_.push_back(std::move(task));
      posted_++;
    }
    changed_.notify_all();
  }
  // Returns when all work posted so far is done.
  void Drain() {
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, until = posted_] { return done_ >= until; });
  }
  // While it is held, the stream starts no work.
  void SetHeld(bool held) {
    {
      std::lock_guard lock(mutex_);
      held_ = held;
    }
    changed_.notify_all();
  }
  int64_t posted() {
    std::lock_guard lock(mutex_);
    return posted_;
  }

 private:
  void Loop() {
    std::unique_lock lock(mutex_);
    for (;;) {
      changed_.wait(lock, [this] { return stop_ || (!held_ && !tasks_.empty()); });
      if (tasks_.empty()) return;
      std::function<void()> task = std::move(tasks_.front());
      tasks_.pop_front();
      lock.unlock();
      if (most_us_ > 0 && random_() % 4 == 0)
        std::this_thread::sleep_for(std::chrono::microseconds(int64_t(random_() % uint64_t(most_us_ + 1))));
      task();
      task = nullptr;  // frees what it holds before others see that it is done
      lock.lock();
      done_++;
      changed_.notify_all();
    }
  }

  int most_us_;
  std::mt19937_64 random_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::function<void()>> tasks_;
  int64_t posted_ = 0, done_ = 0;
  bool held_ = false, stop_ = false;
  std::thread thread_;  // last, because it uses the other members
};

}  // namespace weft::test
