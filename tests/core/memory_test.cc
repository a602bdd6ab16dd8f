// How much memory there is, as Linux tells it, and the words for too little of it.
#include "core/base/memory.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "core/base/buffer.h"
#include "core/base/error.h"
#include "core/base/host_memory.h"

namespace weft {
namespace {

constexpr size_t kMiB = size_t(1) << 20;

// A host made of files.
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

TEST_F(HostFiles, WhereNothingSaysItNobodyKnows) {
  std::filesystem::remove_all(root_);
  EXPECT_EQ(Now().total, 0u);
  EXPECT_NE(OutOfMemory({.where = "x", .asked = 1}).find("free bytes unknown"), std::string::npos);
}

TEST(HostMemory, OfThisHostIsKnown) {
  EXPECT_GT(HostMemory().free, 0u);
  EXPECT_GE(HostMemory().total, HostMemory().free);
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
