// How much of its sweep a long test runs. Sanitized builds are some ten times slower and look for what one placement in
// many shows as well as all of them do: tests/CMakeLists.txt gives them WEFT_TEST_SHARE=n, one nth. Plain builds run
// all.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <vector>

namespace weft::test {

inline int Share() {
  const char* share = std::getenv("WEFT_TEST_SHARE");
  return share && std::atoi(share) > 0 ? std::atoi(share) : 1;
}

// Of a sweep whose rows are whole runs, ten times that share: with one fiftieth one row in five.
template <class T>
std::vector<T> ShareOf(std::vector<T> rows) {
  size_t nth = size_t(std::max(1, Share() / 10)), kept = 0;
  for (size_t i = 0; i < rows.size(); i += nth) rows[kept++] = rows[i];
  rows.erase(rows.begin() + std::ptrdiff_t(kept), rows.end());
  return rows;
}

// As many of the rounds of nested loops: whether the next one, counted by `round`, is left out. Which ones are kept
// follows no loop.
inline bool Skips(size_t& round) {
  uint32_t mixed = uint32_t(round++) * 2654435761u >> 16;
  return mixed % uint32_t(std::max(1, Share() / 10)) != 0;
}

}  // namespace weft::test
