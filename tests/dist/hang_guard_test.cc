// A library call that hangs ends the process. A call that returns has no effect on the process.
#include "weft/dist/signals/hang_guard.h"

#include <gtest/gtest.h>

namespace weft {
namespace {

using namespace std::chrono_literals;

TEST(HangGuard, EndsAProcessThatHangs) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto hang = [] {
    HangGuard guard("rank 3", "MPI_Init", 50ms);
    std::this_thread::sleep_for(60s);
  };
  EXPECT_EXIT(hang(), testing::ExitedWithCode(1),
              "weft: rank 3 \\(host .*, pid [0-9]+\\): MPI_Init has not returned within 50 ms");
}

TEST(HangGuard, LeavesACallThatReturns) {
  for (int i = 0; i < 100; i++) HangGuard("rank 0", "MPI_Finalize", 50ms);
  std::this_thread::sleep_for(100ms);
}

}  // namespace
}  // namespace weft
