// How much of its sweep a long test runs. Sanitized builds are some ten times slower and look for what one placement in
// many shows as well as all of them do: tests/CMakeLists.txt gives them WEFT_TEST_SHARE=n, one nth. Plain builds run
// all.
#pragma once
#include <cstdlib>

namespace weft::test {

inline int Share() {
  const char* share = std::getenv("WEFT_TEST_SHARE");
  return share && std::atoi(share) > 0 ? std::atoi(share) : 1;
}

}  // namespace weft::test
