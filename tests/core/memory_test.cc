// How much memory Linux reports, and the error message when it is too little.
#include "weft/core/base/memory.h"

#include <fmt/format.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "weft/core/base/buffer.h"
#include "weft/core/base/error.h"
#include "weft/core/base/host_memory.h"
#include "weft/core/base/process_memory.h"
#include "weft/core/host/host_name.h"

namespace weft {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

// A host whose /proc and /sys are files that the test writes.
class HostFiles : public testing::Test {
 protected:
  HostFiles() { Write("proc/meminfo", "MemTotal: 8192 kB\nMemFree: 1024 kB\nMemAvailable: 4096 kB\nBuffers: 1 kB\n"); }
  ~HostFiles() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) {
    std::filesystem::path file = root_ / path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  void Group(const std::string& path, const std::string& limit, size_t used, size_t droppable) {
    Write("sys/fs/cgroup" + path + "/memory.max", limit + "\n");
    Write("sys/fs/cgroup" + path + "/memory.current", std::to_string(used) + "\n");
    Write("sys/fs/cgroup" + path + "/memory.stat", "anon 7\ninactive_file " + std::to_string(droppable) + "\nx 9\n");
  }
  Memory Now() const { return HostMemory(root_.string()); }

  std::filesystem::path root_ = std::filesystem::path(testing::TempDir()) / "host_files";
};

TEST_F(HostFiles, FreeIsWhatIsAvailable) {
  EXPECT_EQ(Now().free, 4 * kMiB);
  EXPECT_EQ(Now().total, 8 * kMiB);
}

TEST_F(HostFiles, AGroupOfTheProcessOrAboveItMayAllowLess) {
  Write("proc/self/cgroup", "4:memory:/old\n0::/job/step\n");
  Group("/job/step", "max", kMiB, 0);
  EXPECT_EQ(Now().free, 4 * kMiB);
  Group("/job", std::to_string(6 * kMiB), 5 * kMiB, kMiB);
  EXPECT_EQ(Now().free, 2 * kMiB);
  EXPECT_EQ(Now().total, 6 * kMiB);
  Group("/job/step", std::to_string(3 * kMiB), 4 * kMiB, 0);
  EXPECT_EQ(Now().free, 0u);
  Group("/other", "1", 0, 0);
  EXPECT_EQ(Now().total, 3 * kMiB);
}

TEST_F(HostFiles, AGroupOfVersion1MayAllowLess) {
  auto group = [&](const std::string& path, size_t limit, size_t used, size_t droppable, bool bounds_others = true) {
    std::string folder = "sys/fs/cgroup/memory" + path;
    Write(folder + "/memory.limit_in_bytes", std::to_string(limit) + "\n");
    Write(folder + "/memory.usage_in_bytes", std::to_string(used) + "\n");
    Write(folder + "/memory.use_hierarchy", bounds_others ? "1\n" : "0\n");
    Write(folder + "/memory.stat", "cache 1\ntotal_inactive_file " + std::to_string(droppable) + "\n");
  };
  constexpr size_t kNone = 9223372036854771712u;
  Write("proc/self/cgroup", "9:name=systemd:/\n5:hugetlb,memory:/job/step\n1:cpu:/other\n0::/\n");
  group("", kNone, 7 * kMiB, 0);
  group("/job", kNone, 5 * kMiB, 0);
  group("/job/step", kNone, kMiB, 0);
  EXPECT_EQ(Now().free, 4 * kMiB);
  EXPECT_EQ(Now().total, 8 * kMiB);
  group("/job/step", 6 * kMiB, 5 * kMiB, 2 * kMiB);
  EXPECT_EQ(Now().free, 3 * kMiB);
  EXPECT_EQ(Now().total, 6 * kMiB);
  group("/job", 5 * kMiB, 4 * kMiB, 0);
  EXPECT_EQ(Now().free, kMiB);
  EXPECT_EQ(Now().total, 5 * kMiB);
  group("/job", 5 * kMiB, 4 * kMiB, 0, /*bounds_others=*/false);
  EXPECT_EQ(Now().free, 3 * kMiB);
  group("/other", 1, 0, 0);
  EXPECT_EQ(Now().free, 3 * kMiB);
}

TEST_F(HostFiles, AContainerSeesItsOwnGroupAsTheRoot) {
  Write("proc/self/cgroup", "4:memory:/docker/1f\n");
  Write("sys/fs/cgroup/memory/memory.limit_in_bytes", std::to_string(2 * kMiB));
  Write("sys/fs/cgroup/memory/memory.usage_in_bytes", std::to_string(kMiB));
  Write("sys/fs/cgroup/memory/memory.use_hierarchy", "0");
  EXPECT_EQ(Now().free, kMiB);
  EXPECT_EQ(Now().total, 2 * kMiB);
}

TEST_F(HostFiles, StrictAccountingMayAllowLess) {
  Write("proc/meminfo", "MemTotal: 8192 kB\nMemAvailable: 4096 kB\nCommitLimit: 6144 kB\nCommitted_AS: 5120 kB\n");
  for (auto [mode, free] : {std::pair("0\n", 4 * kMiB), {"1\n", 4 * kMiB}, {"2\n", kMiB}}) {
    Write("proc/sys/vm/overcommit_memory", mode);
    EXPECT_EQ(Now().free, free) << mode;
  }
}

TEST_F(HostFiles, WhereNothingSaysItNobodyKnows) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(Now().total, 0u);
  EXPECT_NE(OutOfMemory({.where = "x", .asked = 1}).find("free bytes unknown"), std::string::npos);
}

TEST(HostMemory, OfThisHostIsKnown) {
  EXPECT_GT(HostMemory().free, 0u);
  EXPECT_GE(HostMemory().total, HostMemory().free);
}

// Sets a resource limit of this process until the end of the scope.
class ScopedLimit {
 public:
  ScopedLimit(decltype(RLIMIT_AS) resource, size_t bytes) : resource_(resource) {
    getrlimit(resource, &before_);
    rlimit limit{bytes, before_.rlim_max};
    EXPECT_EQ(setrlimit(resource, &limit), 0);
  }
  ~ScopedLimit() { setrlimit(resource_, &before_); }

 private:
  decltype(RLIMIT_AS) resource_;
  rlimit before_{};
};

// A sanitizer's shadow memory takes terabytes of address space, so the mapped sizes come from a statm file that the
// test writes.
TEST_F(HostFiles, AProcessMayMapWhatItsTightestLimitLeaves) {
  const size_t page = size_t(sysconf(_SC_PAGESIZE)), most = size_t(1) << 50;
  Write("proc/self/statm", "100 9 9 9 0 30 0\n");
  ScopedLimit data(RLIMIT_DATA, most);
  ProcessMemory process = MemoryOfProcess(root_.string());
  EXPECT_EQ(process.limit, "RLIMIT_DATA (ulimit -d)");
  EXPECT_EQ(process.memory.free, most - 30 * page);
  ScopedLimit space(RLIMIT_AS, most);
  process = MemoryOfProcess(root_.string());
  EXPECT_EQ(process.limit, "RLIMIT_AS (ulimit -v)");
  EXPECT_EQ(process.memory.free, most - 100 * page);
  EXPECT_EQ(process.memory.total, most);
}

TEST(HostShortage, NamesTheLimitThatLeavesLess) {
  EXPECT_TRUE(HostShortage(1).where.starts_with("the CPU of host ")) << HostShortage(1).where;
  constexpr size_t kHigh = size_t(1) << 50;
  size_t used = 0;
  {
    ScopedLimit data(RLIMIT_DATA, kHigh);
    used = kHigh - MemoryOfProcess().memory.free;
  }
  ScopedLimit space(RLIMIT_AS, kHigh);
  EXPECT_TRUE(HostShortage(1).where.starts_with("the CPU of host ")) << "which has less";
  // 64 MiB is enough for what this test allocates. The limit counts from the bytes in use, because a sanitizer has
  // terabytes of data.
  ScopedLimit data(RLIMIT_DATA, used + 64 * kMiB);
  Shortage shortage = HostShortage(7, "x");
  std::string text = OutOfMemory(shortage);
  EXPECT_TRUE(
      text.starts_with(fmt::format("out of memory on process {} of host {} under RLIMIT_DATA (ulimit -d): 7 B "
                                   "asked for (x), ",
                                   getpid(), HostName())))
      << text;
  EXPECT_EQ(shortage.memory.total, used + 64 * kMiB);
}

TEST(OutOfMemory, AnAllocationSaysWhatItIsFor) {
  MemoryUse outer("moments");
  try {
    MemoryUse inner("activations");
    AllocateCpu(size_t(1) << 60);
    ADD_FAILURE() << "expected no host to have so much";
  } catch (const Error& e) {
    std::string text = e.what();
    EXPECT_TRUE(text.starts_with("out of memory on the CPU of host ")) << text;
    EXPECT_NE(text.find("1048576.0 TiB asked for (activations), "), text.npos) << text;
    EXPECT_NE(text.find("train.micro_batch"), text.npos) << text;
  }
  EXPECT_STREQ(MemoryUse::Current(), "moments");
}

TEST(BytesText, HasTheUnitThatReadsBest) {
  EXPECT_EQ(BytesText(0), "0 B");
  EXPECT_EQ(BytesText(1023), "1023 B");
  EXPECT_EQ(BytesText(1536), "1.5 KiB");
  EXPECT_EQ(BytesText(28317053696), "26.4 GiB");
  EXPECT_EQ(BytesText(size_t(3) << 50), "3072.0 TiB");
}

}  // namespace
}  // namespace weft
