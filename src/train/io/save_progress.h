// SaveProgress: how much of its part of a checkpoint a rank has written. The saving thread updates it; any thread may
// read it.
#pragma once
#include <chrono>
#include <cstdint>
#include <mutex>
#include <string>

namespace weft {

class SaveProgress {
 public:
  // Starts a save of `bytes` bytes by this rank. `folder` is the name that Describe shows.
  void Begin(std::string folder, uint64_t bytes);
  // Adds `bytes` on their way to the disk, or 0 for a step without data, such as a rename.
  void Add(uint64_t bytes = 0);
  // Changes with every call of Begin or Add.
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
