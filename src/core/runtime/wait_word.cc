#include "weft/core/runtime/wait_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace weft {
namespace {

void Pause() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#endif
}

}  // namespace

// The waker changes the word before it reads sleepers_, and a sleeper counts itself before the kernel reads the word.
// All of these are sequentially consistent, so either the waker sees the sleeper or the kernel sees the change.
void WaitWord::Add(uint32_t n) {
  word_.fetch_add(n, std::memory_order_seq_cst);
  Wake();
}

void WaitWord::Or(uint32_t bits) {
  word_.fetch_or(bits, std::memory_order_seq_cst);
  Wake();
}

void WaitWord::Wake() {
  if (sleepers_.load(std::memory_order_seq_cst))
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAKE_PRIVATE, INT_MAX, nullptr, nullptr, 0);
}

uint32_t WaitWord::WaitWhile(uint32_t old, Deadline deadline, Patience patience) {
  uint32_t now = load();
  for (int i = 0; i < patience.spins && now == old; i++, now = load()) Pause();
  for (int i = 0; i < patience.yields && now == old; i++, now = load()) sched_yield();
  while (now == old) {
    auto left = deadline - std::chrono::steady_clock::now();
    if (left.count() <= 0) return old;
    auto ns = std::chrono::duration_cast<std::chrono::nanoseconds>(left).count();
    timespec relative{time_t(ns / 1'000'000'000), long(ns % 1'000'000'000)};
    sleepers_.fetch_add(1, std::memory_order_seq_cst);
    syscall(SYS_futex, reinterpret_cast<uint32_t*>(&word_), FUTEX_WAIT_PRIVATE, old, &relative, nullptr, 0);
    sleepers_.fetch_sub(1, std::memory_order_seq_cst);
    now = load();
  }
  return now;
}

}  // namespace weft
