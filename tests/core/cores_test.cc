// The cores of a process, and how the ranks of a host share them.
#include "weft/core/host/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <bit>
#include <thread>
#include <vector>

namespace weft {
namespace {

CoreSet Cores(const std::vector<int>& cores) {
  CoreSet set(256, '\0');
  for (int core : cores) set[size_t(core) / 8] = char(uint8_t(set[size_t(core) / 8]) | 1u << core % 8);
  return set.substr(0, set.find_last_not_of('\0') + 1);
}

CoreSet Cores(int first, int last) {
  std::vector<int> cores;
  for (int core = first; core <= last; core++) cores.push_back(core);
  return Cores(cores);
}

std::vector<int> Shares(const std::vector<CoreSet>& host) {
  std::vector<int> shares;
  for (const CoreSet& mine : host) shares.push_back(ShareOfCores(mine, host));
  return shares;
}

// A thread of its own, so that the other tests keep their cores.
TEST(Cores, AreThoseOfTheAffinityMask) {
  std::thread([] {
    cpu_set_t all;
    ASSERT_EQ(sched_getaffinity(0, sizeof(all), &all), 0);
    EXPECT_EQ(AvailableCores(), CPU_COUNT(&all));
    for (int core = 0; core < CPU_SETSIZE; core++) {
      if (!CPU_ISSET(core, &all)) continue;
      cpu_set_t one;
      CPU_ZERO(&one);
      CPU_SET(core, &one);
      ASSERT_EQ(sched_setaffinity(0, sizeof(one), &one), 0);
      EXPECT_EQ(AvailableCores(), 1);
      EXPECT_EQ(AvailableCoreSet(), Cores({core}));
    }
  }).join();
}

TEST(Cores, AnUnboundRankOfOneHasAll) { EXPECT_EQ(Shares({Cores(0, 63)}), std::vector<int>{64}); }

// srun -n 4 -c 8 with a binding to cores, on a host of 64.
TEST(Cores, BoundRanksKeepTheirOwn) {
  EXPECT_EQ(Shares({Cores(0, 7), Cores(8, 15), Cores(16, 23), Cores(24, 31)}), (std::vector<int>{8, 8, 8, 8}));
  EXPECT_EQ(Shares({Cores(0, 2), Cores(3, 3)}), (std::vector<int>{3, 1}));
  EXPECT_EQ(Shares({Cores({0, 32}), Cores({1, 33})}), (std::vector<int>{2, 2}));  // both threads of a core
  EXPECT_EQ(Shares({Cores(1024, 1031), Cores(0, 7)}), (std::vector<int>{8, 8}));
}

// docker --cpuset-cpus=0-3 with two ranks, and ranks without any binding.
TEST(Cores, RanksOfOneSetDivideIt) {
  EXPECT_EQ(Shares({Cores(0, 3), Cores(0, 3)}), (std::vector<int>{2, 2}));
  EXPECT_EQ(Shares({Cores(0, 8), Cores(0, 8), Cores(0, 8)}), (std::vector<int>{3, 3, 3}));
  EXPECT_EQ(Shares({Cores(0, 0), Cores(0, 0)}), (std::vector<int>{1, 1}));  // more ranks than cores
}

// Two ranks per NUMA node.
TEST(Cores, RanksDivideTheSetOfTheirNode) {
  EXPECT_EQ(Shares({Cores(0, 7), Cores(0, 7), Cores(8, 15), Cores(8, 15)}), (std::vector<int>{4, 4, 4, 4}));
}

TEST(Cores, SetsThatOverlapDivideWhatTheyShare) {
  EXPECT_EQ(Shares({Cores(0, 3), Cores(0, 7)}), (std::vector<int>{2, 6}));
  EXPECT_EQ(Shares({Cores(0, 5), Cores(4, 9)}), (std::vector<int>{5, 5}));
}

// Over all sets of four cores: the shares together are at most the cores of the host, not counting those of one core,
// which may have been less than one.
TEST(Cores, SharesFitTheHost) {
  for (unsigned bits = 0; bits < 1u << 12; bits++) {
    std::vector<CoreSet> host;
    for (unsigned rank = 0; rank < 3; rank++) host.emplace_back(1, char(bits >> (4 * rank) & 15));
    int cores = std::popcount((bits | bits >> 4 | bits >> 8) & 15), sum = 0;
    for (int share : Shares(host)) sum += share > 1 ? share : 0;
    EXPECT_LE(sum, cores) << bits;
  }
}

}  // namespace
}  // namespace weft
