// Work: the handle of a collective that runs in the background, and the thread (Lane) that runs it.
#pragma once
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "weft/dist/group/collective.h"

namespace weft {

// Cheap to copy and thread-safe. Dropping it does not cancel the call, whose memory must stay valid until the call is
// done.
class Work {
 public:
  bool Test() const;                 // done, with or without an error
  std::exception_ptr error() const;  // null while running and after success
  // Blocks until the call is done and throws its error. With a timeout other than 0, throws Error if the call is not
  // done by then. The call itself continues until the timeout of its group ends it.
  void Wait(std::chrono::milliseconds timeout = std::chrono::milliseconds{0}) const;

 private:
  friend class Lane;
  friend class ProcessGroup;
  struct State;
  Work();
  void Finish(std::exception_ptr error) const;  // called once, by the runner of the call
  // Resets the handle and returns true if the call is done and nobody else holds the handle. Otherwise returns false.
  bool Recycle() const;

  std::shared_ptr<State> state_;
};

// Runs calls in order on one thread, which starts with the first call. A call reuses a slot that is done and whose
// handle was dropped, so allocation stops once there are enough slots.
class Lane {
 public:
  using Runner = std::function<void(const Collective& call, uint64_t sequence)>;
  explicit Lane(Runner run) : run_(std::move(run)) {}
  ~Lane();  // runs queued calls, then joins
  // Copies the call's site. Its memory and counts must stay valid until the work is done.
  Work Push(const Collective& call, uint64_t sequence);
  bool idle() const { return pending_.load(std::memory_order_acquire) == 0; }

 private:
  struct Slot {
    Work work;
    Collective call;
    uint64_t sequence = 0;
    SiteText site;
    Slot* next = nullptr;  // in the queue
  };
  Slot& FreeSlot();
  void Loop();
  std::exception_ptr Run(const Slot& slot) const;

  Runner run_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<std::unique_ptr<Slot>> slots_;
  Slot *first_ = nullptr, *last_ = nullptr;  // ends of the queue
  std::atomic<int> pending_{0};
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace weft
