// Work: the handle of a collective that runs in the background; and the thread it runs on.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>

namespace weft {

// Cheap to copy. Dropping it does not cancel the call: its memory must stay until the call is done.
class Work {
 public:
  Work();

  bool Test() const;                 // done, well or badly
  std::exception_ptr error() const;  // null while running and after success
  // Returns when the call is done; throws its error. With a timeout other than 0, throws Error when it is not done by
  // then (the call goes on, until the timeout of its group ends it).
  void Wait(std::chrono::milliseconds timeout = std::chrono::milliseconds{0}) const;

  void Finish(std::exception_ptr error);  // by whoever runs the call, once

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Runs tasks in order on one thread, which starts with the first task.
class Lane {
 public:
  ~Lane();  // runs what is queued, then joins
  Work Push(std::function<void()> task);
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  void Loop();

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<std::pair<std::function<void()>, Work>> queue_;
  std::atomic<int> pending_{0};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft
