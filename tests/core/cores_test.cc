// The cores of a process, and how the ranks of a host share them.
#include "weft/core/host/cores.h"

#include <gtest/gtest.h>
#include <sched.h>

#include <bit>
#include <filesystem>
#include <fstream>
#include <thread>
#include <vector>

#include "weft/core/host/control_groups.h"

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

std::vector<int> Shares(const std::vector<CoreSet>& host, std::optional<int> quota = std::nullopt) {
  std::vector<int> shares;
  for (const CoreSet& mine : host) shares.push_back(ShareOfCores(mine, host, quota));
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

// docker --cpus=4 on a host of 64 cores, with sets that a quota does not narrow.
TEST(Cores, RanksDivideAQuotaAsTheirSets) {
  EXPECT_EQ(Shares({Cores(0, 63)}, 4), std::vector<int>{4});
  EXPECT_EQ(Shares({Cores(0, 63)}, 64), std::vector<int>{64});
  EXPECT_EQ(Shares({Cores(0, 63)}, 100), std::vector<int>{64});
  EXPECT_EQ(Shares({Cores(0, 63), Cores(0, 63)}, 4), (std::vector<int>{2, 2}));
  EXPECT_EQ(Shares({Cores(0, 8), Cores(0, 8), Cores(0, 8)}, 3), (std::vector<int>{1, 1, 1}));
  EXPECT_EQ(Shares({Cores(0, 63), Cores(0, 63)}, 1), (std::vector<int>{1, 1}));  // more ranks than cores
  EXPECT_EQ(Shares({Cores(0, 5), Cores(6, 7)}, 4), (std::vector<int>{3, 1}));
}

// Over all sets of four cores and all quotas: the shares together are at most the quota and the cores of the host, not
// counting those of one core, which may have been less than one.
TEST(Cores, SharesFitTheHost) {
  for (unsigned bits = 0; bits < 1u << 12; bits++) {
    std::vector<CoreSet> host;
    for (unsigned rank = 0; rank < 3; rank++) host.emplace_back(1, char(bits >> (4 * rank) & 15));
    int cores = std::popcount((bits | bits >> 4 | bits >> 8) & 15), sum = 0;
    for (int quota = 1; quota <= 5; quota++, sum = 0) {
      for (int share : Shares(host, quota)) sum += share > 1 ? share : 0;
      EXPECT_LE(sum, std::min(cores, quota)) << bits << " of " << quota;
    }
  }
}

// A folder in place of /, with files of control groups.
class CoreQuotas : public testing::Test {
 protected:
  void SetUp() override { TearDown(); }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Version1(const std::string& group, const std::string& quota, const std::string& period) {
    Write("sys/fs/cgroup/cpu" + group + "/cpu.cfs_quota_us", quota + "\n");
    Write("sys/fs/cgroup/cpu" + group + "/cpu.cfs_period_us", period + "\n");
  }
  std::optional<int> Now() const { return CoreQuota(root_.string()); }

  std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) / "core_quotas";
};

TEST_F(CoreQuotas, AreTheLeastOfTheGroupAndThoseAboveIt) {
  EXPECT_EQ(Now(), std::nullopt);
  Write("proc/self/cgroup", "1:cpu:/old\n0::/job/step\n");
  Write("sys/fs/cgroup/job/step/cpu.max", "max 100000\n");
  EXPECT_EQ(Now(), std::nullopt);
  Write("sys/fs/cgroup/job/cpu.max", "400000 100000\n");
  EXPECT_EQ(Now(), 4);
  Write("sys/fs/cgroup/job/step/cpu.max", "25000 10000\n");
  EXPECT_EQ(Now(), 3);  // two and a half
  Write("sys/fs/cgroup/cpu.max", "10000 100000\n");
  EXPECT_EQ(Now(), 1);
  Write("sys/fs/cgroup/cpu.max", "max 100000\n");
  Write("sys/fs/cgroup/other/cpu.max", "10000 100000\n");
  EXPECT_EQ(Now(), 3);
}

TEST_F(CoreQuotas, OfVersion1AreHeeded) {
  Write("proc/self/cgroup", "9:name=systemd:/\n5:cpuacct,cpu:/job/step\n1:cpuset:/other\n0::/\n");
  Version1("", "-1", "100000");
  Version1("/job/step", "-1", "100000");
  EXPECT_EQ(Now(), std::nullopt);
  Version1("/job", "150000", "100000");
  EXPECT_EQ(Now(), 2);
  Version1("/job/step", "50000", "100000");
  EXPECT_EQ(Now(), 1);
  Version1("/other", "1000", "100000");
  Version1("/job/step", "-1", "100000");
  EXPECT_EQ(Now(), 2);
}

TEST_F(CoreQuotas, OfAContainerAreAtItsRoot) {
  Write("proc/self/cgroup", "0::/docker/1f\n");
  Write("sys/fs/cgroup/cpu.max", "200000 100000\n");
  EXPECT_EQ(Now(), 2);
}

TEST_F(CoreQuotas, ThatMakeNoSenseAreNone) {
  for (const char* text : {"", "max", "max max", "0 100000", "-5 100000", "100000", "100000 0", "a b", "9e99 1"}) {
    Write("sys/fs/cgroup/cpu.max", text);
    EXPECT_EQ(Now(), std::nullopt) << text;
  }
}

}  // namespace
}  // namespace weft
