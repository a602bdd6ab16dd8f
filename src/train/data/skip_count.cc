#include "weft/train/data/skip_count.h"

#include <algorithm>

#include "fmt/format.h"

namespace weft {

void SkipCount::Add(const std::string& what, const std::string& place, int64_t count) {
  auto found = std::find_if(kinds_.begin(), kinds_.end(), [&](const Kind& kind) { return kind.what == what; });
  if (found == kinds_.end()) found = kinds_.insert(kinds_.end(), {what, place, 0});
  found->count += count;
}

void SkipCount::Add(const SkipCount& other) {
  for (const Kind& kind : other.kinds_) Add(kind.what, kind.first, kind.count);
}

std::string SkipCount::Note() const {
  std::string note;
  for (const Kind& kind : kinds_)
    note += fmt::format("{}{}: {} (first {})", note.empty() ? "skipped: " : ", ", kind.what, kind.count, kind.first);
  return note;
}

}  // namespace weft
