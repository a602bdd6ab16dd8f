// ParallelFor runs every index once, splits a range the same way each time, and returns errors to the caller.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <set>

#include "address_space.h"
#include "weft/core/base/error.h"
#include "weft/core/runtime/context.h"

namespace weft {
namespace {

using Pieces = std::set<std::pair<int64_t, int64_t>>;

Pieces Split(const Context& context, int64_t n, int64_t grain) {
  std::mutex mutex;
  Pieces pieces;
  context.ParallelFor(n, grain, [&](int64_t begin, int64_t end) {
    std::lock_guard lock(mutex);
    pieces.insert({begin, end});
  });
  return pieces;
}

TEST(ParallelFor, PiecesCoverTheRangeOnceAndDoNotChange) {
  for (int threads : {1, 2, 3, 5}) {
    Context context(0, 1, threads);
    for (int64_t n : {0, 1, 2, 3, 7, 16, 100})
      for (int64_t grain : {1, 2, 8, 1000}) {
        Pieces pieces = Split(context, n, grain);
        int64_t at = 0;
        for (auto [begin, end] : pieces) {
          EXPECT_EQ(begin, at);
          EXPECT_LT(begin, end);
          at = end;
        }
        EXPECT_EQ(at, n);
        EXPECT_LE(int(pieces.size()), threads);
        if (n <= grain) {
          EXPECT_LE(pieces.size(), 1u) << "no split below the grain";
        }
        for (int again = 0; again < 3; again++) EXPECT_EQ(Split(context, n, grain), pieces);
      }
  }
}

TEST(ParallelFor, ManyCallsInARowAllFinish) {
  Context context(0, 1, 4);
  std::atomic<int64_t> sum = 0;
  for (int i = 0; i < 2000; i++) context.ParallelFor(8, 1, [&](int64_t begin, int64_t end) { sum += end - begin; });
  EXPECT_EQ(sum, 16000);
}

// The first error is rethrown when all pieces are done, and the pool still works afterwards.
TEST(ParallelFor, AnErrorOfAPieceComesBackOnce) {
  Context context(0, 1, 3);
  for (int round = 0; round < 50; round++) {
    std::atomic<int> ran = 0;
    EXPECT_THROW(context.ParallelFor(3, 1,
                                     [&](int64_t begin, int64_t) {
                                       ran++;
                                       if (begin != 1) Fail("piece");
                                     }),
                 Error);
    EXPECT_EQ(ran, 3);
    EXPECT_EQ(Split(context, 3, 1).size(), 3u);
  }
}

// If some threads cannot start, those that have started are joined before the error is thrown.
TEST(ThreadPool, SaysThatThreadsCannotStart) {
  if (IsSanitized()) GTEST_SKIP() << "a sanitizer maps terabytes";
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  auto make = [] {
    LeaveAddressSpace(size_t(20) << 20);  // the stack of a thread takes 8 MiB
    try {
      Context context(0, 1, 65);
    } catch (const Error& e) {
      std::fputs(e.what(), stderr);
      std::exit(3);
    }
  };
  EXPECT_EXIT(make(), testing::ExitedWithCode(3), "expected 64 worker threads, got [0-9]+ .*; use fewer threads, or");
}

}  // namespace
}  // namespace weft
