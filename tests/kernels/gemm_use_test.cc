// All threads of a process together run at most as many products at a time as OpenBLAS has buffers.
#include "weft/kernels/cpu/product/gemm_use.h"

#include <gtest/gtest.h>
#include <sys/time.h>

#include <algorithm>
#include <atomic>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <random>
#include <thread>
#include <vector>

#include "address_space.h"
#include "weft/core/base/error.h"
#include "weft/kernels/cpu/product/gemm.h"

namespace weft::cpu {
namespace {

// Ranks are threads here, and each has threads of its own. Uses of all sizes overlap, and every product is right.
TEST(GemmUse, BoundsTheThreadsThatMultiply) {
  constexpr int kUsers = 8, kTimes = 40, kSize = 48;
  const std::vector<float> ones(kSize * kSize, 1.0f);
  std::atomic<int64_t> in_use = 0, most = 0;
  std::atomic<int> wrong = 0;
  auto multiply = [&] {
    std::vector<float> c(kSize * kSize);
    Gemm<float>(kSize, kSize, kSize, {ones.data(), kSize, 1}, {ones.data(), kSize, 1}, {c.data(), kSize, 1});
    for (float value : c) wrong += value != float(kSize);
  };
  auto user = [&](int seed) {
    for (int i = 0; i < kTimes; i++) {
      int64_t threads = 1 + (seed * 7 + i * 5) % 40;
      GemmUse use(threads);
      int64_t now = in_use += threads;
      for (int64_t seen = most; seen < now && !most.compare_exchange_weak(seen, now);) continue;
      std::thread other(multiply);
      multiply();
      other.join();
      in_use -= threads;
    }
  };
  std::vector<std::thread> users;
  for (int i = 0; i < kUsers; i++) users.emplace_back(user, i);
  for (std::thread& thread : users) thread.join();
  EXPECT_EQ(wrong, 0);
  EXPECT_LE(most, kMaxGemmThreads);
  EXPECT_GT(most, 40) << "uses wait for room, not for each other";
}

// A handler that runs during a product must not change its memory or that of others. oneDNN 2.6 multiplies with the
// stack pointer in a buffer on the heap, and the kernel writes a signal's frame below it.
TEST(Gemm, SignalsMayComeAtAnyTime) {
  GemmUse use(1);
  static std::atomic<int> signals;
  struct sigaction count {
  }, before{};
  count.sa_handler = [](int) { signals++; };
  count.sa_flags = SA_RESTART;
  sigaction(SIGALRM, &count, &before);
  itimerval often{{0, 200}, {0, 200}}, never{};  // us
  setitimer(ITIMER_REAL, &often, nullptr);
  const std::vector<float> ones(size_t(1) << 17, 1.0f);
  std::vector<float> c(size_t(1) << 16);
  std::vector<std::vector<char>> neighbours(64);
  std::minstd_rand draw(1);
  for (int i = 0; i < 4000; i++) {
    int64_t m = i % 2 ? 256 : 64, n = i % 3 ? 64 : 256, k = i % 5 ? 256 : 512;
    Gemm<float>(m, n, k, {ones.data(), i % 4 ? k : 1, i % 4 ? 1 : m}, {ones.data(), n, 1}, {c.data(), n, 1});
    ASSERT_EQ(std::count(c.begin(), c.begin() + m * n, float(k)), m * n) << i;
    neighbours[size_t(i % 64)] = std::vector<char>(draw() % 100000);
  }
  setitimer(ITIMER_REAL, &never, nullptr);
  sigaction(SIGALRM, &before, nullptr);
  EXPECT_GT(signals, 100);
}

// Without the check, OpenBLAS would try to map its buffer forever.
TEST(GemmUse, ThrowsWhereBuffersCannotBeMapped) {
  if (IsSanitized()) GTEST_SKIP() << "a sanitizer maps terabytes";
  { GemmUse one(1); }
  auto use = [](size_t left, int64_t threads) {
    LeaveAddressSpace(left);
    try {
      GemmUse more(threads);
    } catch (const Error& e) {
      std::fputs(e.what(), stderr);
      std::exit(3);
    }
    std::exit(0);
  };
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  EXPECT_EXIT(use(4 * kGemmBuffer, 100), testing::ExitedWithCode(3),
              "out of memory on process [0-9]+ of host .* under RLIMIT_AS .ulimit -v.: 12.5 GiB asked for .buffers of "
              "OpenBLAS, 128.0 MiB for each of 100 threads and one to spare., [0-9.]+ MiB free of ");
  EXPECT_EXIT(use(100 * kGemmBuffer, 1), testing::ExitedWithCode(0), "");
}

}  // namespace
}  // namespace weft::cpu
