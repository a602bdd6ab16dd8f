#include "weft/train/io/save_progress.h"

#include <utility>

#include "fmt/format.h"
#include "weft/core/base/memory.h"

namespace weft {

void SaveProgress::Begin(std::string folder, uint64_t bytes) {
  std::lock_guard lock(mutex_);
  folder_ = std::move(folder);
  bytes_ = bytes;
  written_ = 0;
  count_++;
  last_ = std::chrono::steady_clock::now();
}

void SaveProgress::Add(uint64_t bytes) {
  std::lock_guard lock(mutex_);
  written_ += bytes;
  count_++;
  last_ = std::chrono::steady_clock::now();
}

uint64_t SaveProgress::count() const {
  std::lock_guard lock(mutex_);
  return count_;
}

std::string SaveProgress::Describe() const {
  std::lock_guard lock(mutex_);
  double ago = std::chrono::duration<double>(std::chrono::steady_clock::now() - last_).count();
  return fmt::format("saving {} ({} of {} written, the last progress {:.1f} s ago)", folder_, BytesText(written_),
                     BytesText(bytes_), ago);
}

}  // namespace weft
