// SkipCount: what was read and not taken as data: how often of each kind, and where first.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

namespace weft {

class SkipCount {
 public:
  // `what` in the plural: "blank lines".
  void Add(const std::string& what, const std::string& place, int64_t count = 1);
  void Add(const SkipCount& other);
  // "skipped: blank lines: 2 (first a.jsonl:3), empty records: 1 (first b.jsonl:9)"; "": nothing was.
  std::string Note() const;

 private:
  struct Kind {
    std::string what, first;
    int64_t count;
  };
  std::vector<Kind> kinds_;
};

}  // namespace weft
