// SkipCount: counts data that was read but skipped, by kind, with the first place of each kind.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class SkipCount {
 public:
  // `what` is plural, for example "blank lines".
  void Add(const std::string& what, const std::string& place, int64_t count = 1);
  void Add(const SkipCount& other);
  // Returns "skipped: blank lines: 2 (first a.jsonl:3), empty records: 1 (first b.jsonl:9)", or "" if nothing was
  // skipped.
  std::string Note() const;

 private:
  struct Kind {
    std::string what, first;
    int64_t count;
  };
  std::vector<Kind> kinds_;
};

}  // namespace weft
