// ThreadPool: a fixed set of workers that run the pieces of one ParallelFor at a time.
#pragma once
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/functional/function_ref.h"

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
  void RunPieces(std::unique_lock<std::mutex>& lock);

  std::mutex mutex_;
  std::condition_variable wake_, done_;
  const absl::FunctionRef<void(int)>* piece_ = nullptr;
  int next_ = 0, pieces_ = 0, running_ = 0;
  bool stop_ = false;
  std::exception_ptr error_;
  std::vector<std::thread> threads_;
};

}  // namespace weft
