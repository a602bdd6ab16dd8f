#include "weft/core/runtime/thread_pool.h"

#include <fmt/format.h>

#include <system_error>

#include "weft/core/base/error.h"

namespace weft {

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
  {
    std::lock_guard lock(mutex_);
    stop_ = true;
  }
  wake_.notify_all();
  for (std::thread& t : threads_) t.join();
}

void ThreadPool::Run(int pieces, absl::FunctionRef<void(int)> piece) {
  std::unique_lock lock(mutex_);
  piece_ = &piece;
  next_ = 0;
  pieces_ = pieces;
  error_ = nullptr;
  wake_.notify_all();
  RunPieces(lock);
  done_.wait(lock, [this] { return running_ == 0; });
  piece_ = nullptr;
  if (error_) std::rethrow_exception(error_);
}

void ThreadPool::RunPieces(std::unique_lock<std::mutex>& lock) {
  while (piece_ && next_ < pieces_) {
    int mine = next_++;
    running_++;
    const auto* piece = piece_;
    lock.unlock();
    std::exception_ptr error;
    try {
      (*piece)(mine);
    } catch (...) {
      error = std::current_exception();
    }
    lock.lock();
    if (error && !error_) error_ = error;
    if (--running_ == 0 && next_ >= pieces_) done_.notify_all();
  }
}

void ThreadPool::Work() {
  std::unique_lock lock(mutex_);
  while (!stop_) {
    RunPieces(lock);
    wake_.wait(lock, [this] { return stop_ || (piece_ && next_ < pieces_); });
  }
}

}  // namespace weft
