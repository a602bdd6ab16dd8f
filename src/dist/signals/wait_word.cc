#include "weft/dist/signals/wait_word.h"

#include <linux/futex.h>
#include <sched.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <climits>
#include <ctime>

namespace weft {
namespace {

constexpr int kSpins = 30;   // under a microsecond; enough if the other ranks run on other cores
constexpr int kYields = 24;  // lets a rank on the same core run, which is cheaper than a sleep and a wake

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

uint32_t WaitWord::WaitWhile(uint32_t old, Deadline deadline, bool spins) {
  uint32_t now = load();
  for (int i = 0; spins && i < kSpins && now == old; i++, now = load()) Pause();
  for (int i = 0; i < kYields && now == old; i++, now = load()) sched_yield();
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
