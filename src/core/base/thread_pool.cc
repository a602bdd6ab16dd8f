#include "core/base/thread_pool.h"

namespace weft {

ThreadPool::ThreadPool(int workers) {
  for (int i = 0; i < workers; i++) threads_.emplace_back([this] { Work(); });
}

ThreadPool::~ThreadPool() {
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
