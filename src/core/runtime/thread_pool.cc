#include "weft/core/runtime/thread_pool.h"

#include <fmt/format.h>

#include <system_error>
#include <utility>

#include "weft/core/base/error.h"

namespace weft {
namespace {

// Yields for up to about 0.1 ms. Between the products of one token, a step works on one core for 5 to 20 us, and waking
// a worker takes as long.
uint32_t Changed(WaitWord& word, uint32_t old) {
  return word.WaitWhile(old, WaitWord::Deadline::max(), {.yields = 200});
}

}  // namespace

ThreadPool::ThreadPool(int workers) {
  try {
    for (int i = 0; i < workers; i++) threads_.emplace_back([this] { Work(); });
  } catch (const std::system_error& e) {  // some workers have started
    size_t started = threads_.size();
    Stop();
    Fail(fmt::format(
        "expected {} worker threads, got {} ({}); use fewer threads, or raise the limits of ulimit -u and -v", workers,
        started, e.what()));
  }
}

ThreadPool::~ThreadPool() { Stop(); }

void ThreadPool::Stop() {
  stop_ = true;
  round_.Add(1);
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::Run(int pieces, absl::FunctionRef<void(int)> piece) {
  uint32_t round = round_.load() + 1, end = done_.load() + uint32_t(pieces);
  piece_ = &piece;
  left_ = uint64_t(round) << 32 | uint32_t(pieces);
  round_.Add(1);
  RunPieces(round);
  for (uint32_t done = done_.load(); done != end;) done = Changed(done_, done);
  if (error_) std::rethrow_exception(std::exchange(error_, nullptr));
}

// Other threads can end the round between any two lines, and then the exchange fails. If it succeeds, the round lasts
// until this thread has counted its piece as done, so `piece` is of this round.
void ThreadPool::RunPieces(uint32_t round) {
  uint64_t left = left_;
  while (uint32_t(left >> 32) == round && uint32_t(left) > 0) {
    const auto* piece = piece_.load();
    if (!left_.compare_exchange_weak(left, left - 1)) continue;
    try {
      (*piece)(int(uint32_t(left) - 1));
    } catch (...) {
      std::lock_guard lock(mutex_);
      if (!error_) error_ = std::current_exception();
    }
    done_.Add(1);
    left = left_;
  }
}

void ThreadPool::Work() {
  for (uint32_t round = 0; !stop_; round = Changed(round_, round)) RunPieces(round);
}

}  // namespace weft
