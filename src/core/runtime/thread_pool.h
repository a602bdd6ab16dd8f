// ThreadPool: a fixed set of workers that run the pieces of one ParallelFor at a time.
#pragma once
#include <atomic>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"
#include "weft/core/runtime/wait_word.h"

namespace weft {

class ThreadPool {
 public:
  explicit ThreadPool(int workers);
  ~ThreadPool();

  // Runs piece(0) to piece(pieces - 1) on the workers and the caller. Not reentrant. Rethrows the first exception of a
  // piece.
  void Run(int pieces, absl::FunctionRef<void(int)> piece);

 private:
  void Stop();  // stops and joins the workers
  void Work();
  void RunPieces(uint32_t round);

  // The round in the upper half, and in the lower half how many of its pieces no thread has taken. One word, so that a
  // late worker takes no piece of the next round.
  std::atomic<uint64_t> left_{0};
  std::atomic<const absl::FunctionRef<void(int)>*> piece_{nullptr};
  WaitWord round_;  // workers wait for the next one
  WaitWord done_;   // pieces that have ended, of all rounds; the caller waits for its round's
  std::atomic<bool> stop_{false};
  std::mutex mutex_;
  std::exception_ptr error_;  // guarded by mutex_
  std::vector<std::thread> threads_;
};

}  // namespace weft
