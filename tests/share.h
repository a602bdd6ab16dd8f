// How much of its sweep a long test runs. Sanitized builds are some ten times slower and look for what one placement in
// many shows as well as all of them do: tests/CMakeLists.txt gives them WEFT_TEST_SHARE=n, one nth. Plain builds run
// all.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdlib>
#include <vector>

namespace weft::test {

inline int Share() {
  const char* share = std::getenv("WEFT_TEST_SHARE");
  return share && std::atoi(share) > 0 ? std::atoi(share) : 1;
}

// Of a sweep whose rows are whole runs: all, but one in five for the thread sanitizer, the slowest.
template <class T>
std::vector<T> ShareOf(std::vector<T> rows) {
  size_t nth = size_t(std::max(1, Share() / 10)), kept = 0;
  for (size_t i = 0; i < rows.size(); i += nth) rows[kept++] = rows[i];
  rows.erase(rows.begin() + std::ptrdiff_t(kept), rows.end());
  return rows;
}

}  // namespace weft::test
