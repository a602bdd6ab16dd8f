// WaitWord: a 32-bit word whose change threads can wait for. They spin briefly, then sleep on a futex, with a deadline.
//
// std::atomic::wait has no deadline, and a condition variable costs a lock per waiter. With more ranks than cores, a
// barrier spends most of its time in Wake and WaitWhile. All functions are thread-safe.
#pragma once
#include <atomic>
#include <chrono>
#include <cstdint>

namespace weft {

class WaitWord {
 public:
  using Deadline = std::chrono::steady_clock::time_point;

  uint32_t load() const { return word_.load(std::memory_order_seq_cst); }
  // Adds and wakes all waiters.
  void Add(uint32_t n);
  // Sets bits and wakes all waiters.
  void Or(uint32_t bits);
  // How long a thread tries before it sleeps. 30 spins take less than a microsecond, which is enough if the waker runs
  // on another core, and wasted if it needs this one. A yield lets a waker on this core run, which is cheaper than a
  // sleep and a wake.
  struct Patience {
    int spins = 30, yields = 24;
  };
  // Returns the word once it differs from `old`, or `old` if the deadline passes first.
  uint32_t WaitWhile(uint32_t old, Deadline deadline, Patience patience);
  uint32_t WaitWhile(uint32_t old, Deadline deadline) { return WaitWhile(old, deadline, Patience()); }

 private:
  void Wake();
  std::atomic<uint32_t> word_{0};
  std::atomic<uint32_t> sleepers_{0};
};

}  // namespace weft
