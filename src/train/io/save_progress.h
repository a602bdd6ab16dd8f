// SaveProgress: how far a rank is with its part of a checkpoint. The thread that saves adds to it; any thread reads it.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace weft {

class SaveProgress {
 public:
  // A save of `bytes` bytes by this rank begins; `folder` is its name in Describe.
  void Begin(std::string folder, uint64_t bytes);
  // So many more bytes are on their way to the disk; 0 for a step without data, such as a name that was changed.
  void Add(uint64_t bytes = 0);
  // Changes with every Add.
  uint64_t count() const;
  // "saving runs/c/step-000100 (1.0 of 2.0 GiB written, the last progress 3.5 s ago)"
  std::string Describe() const;

 private:
  mutable std::mutex mutex_;
  std::string folder_;
  uint64_t bytes_ = 0, written_ = 0, count_ = 0;
  std::chrono::steady_clock::time_point last_{};
};

}  // namespace weft
