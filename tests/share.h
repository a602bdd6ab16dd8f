// Which part of a sweep a long test runs. tests/CMakeLists.txt sets WEFT_TEST_SHARE=n for sanitized builds, which then
// run one nth. They are about ten times slower, and the errors that they look for show in a few placements as well as
// in all. Plain builds run the whole sweep.
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

// Keeps ten times the usual share, for sweeps whose rows are whole runs: with a share of one fiftieth, every fifth row.
template <class T>
std::vector<T> ShareOf(std::vector<T> rows) {
  size_t nth = size_t(std::max(1, Share() / 10)), kept = 0;
  for (size_t i = 0; i < rows.size(); i += nth) rows[kept++] = rows[i];
  rows.erase(rows.begin() + std::ptrdiff_t(kept), rows.end());
  return rows;
}

// For nested loops: returns whether to leave out the next round, and counts it in `round`. Keeps the same share as
// ShareOf. The choice is hashed, so that it does not follow the period of any loop.
inline bool Skips(size_t& round) {
  uint32_t mixed = uint32_t(round++) * 2654435761u >> 16;
  return mixed % uint32_t(std::max(1, Share() / 10)) != 0;
}

}  // namespace weft::test
