// The file of algorithms returns every line that was added, and damage loses only the damaged lines.
#include "weft/kernels/cuda/product/algorithm_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <random>
#include <sstream>
#include <thread>

namespace weft::cuda {
namespace {

class AlgorithmFileTest : public testing::Test {
 protected:
  std::string folder = testing::TempDir() + "weft_algorithms_" + std::to_string(std::random_device{}());
  std::string path = folder + "/cache/weft/algorithms.txt";
  AlgorithmFile file{path, "a library on a device"};

  ~AlgorithmFileTest() override { std::filesystem::remove_all(folder); }

  std::string Text() const {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  void Write(const std::string& text) const { std::ofstream(path) << text; }
};

ProductKey Key(int64_t m) {
  Product product{.dtype = DType::kBF16, .transpose_a = true, .m = m, .n = 2, .k = 3, .lda = 3, .ldb = 3, .ldd = m};
  return KeyOf(product, 16, 8, 2, 1 << 20);
}
AlgorithmWords Words(uint64_t seed) {
  AlgorithmWords words;
  for (uint64_t& word : words) word = seed *= 0x9E3779B97F4A7C15u;
  return words;
}

TEST_F(AlgorithmFileTest, ReadsWhatWasAdded) {
  EXPECT_TRUE(file.Read().empty());
  for (int64_t m = 1; m <= 20; m++) file.Add(Key(m), Words(uint64_t(m)));
  file.Add(Key(7), Words(100));
  AlgorithmMap map = AlgorithmFile(path, "a library on a device").Read();
  ASSERT_EQ(map.size(), 20u);
  for (int64_t m = 1; m <= 20; m++) EXPECT_EQ(map.at(Key(m)), Words(m == 7 ? 100 : uint64_t(m)));
}

TEST_F(AlgorithmFileTest, AnotherTitleIsAnotherFile) {
  file.Add(Key(1), Words(1));
  EXPECT_TRUE(AlgorithmFile(path, "another library").Read().empty());
}

TEST_F(AlgorithmFileTest, EveryPartOfAKeyCounts) {
  ProductKey key = Key(1);
  file.Add(key, Words(1));
  AlgorithmMap map = file.Read();
  for (int64_t& field : key) {
    field++;
    EXPECT_FALSE(map.contains(key));
    field--;
  }
}

TEST_F(AlgorithmFileTest, ADamagedByteCostsItsLine) {
  for (int64_t m = 1; m <= 3; m++) file.Add(Key(m), Words(uint64_t(m)));
  std::string whole = Text();
  AlgorithmMap all = file.Read();
  for (size_t i = 0; i < whole.size(); i++) {
    std::string damaged = whole;
    damaged[i] = damaged[i] == '5' ? '6' : '5';
    Write(damaged);
    AlgorithmMap map = file.Read();
    EXPECT_LT(map.size(), all.size()) << "byte " << i;
    for (const auto& [key, words] : map) EXPECT_EQ(all.at(key), words) << "byte " << i;
  }
  for (size_t length = 0; length < whole.size(); length += 7) {
    Write(whole.substr(0, length));
    for (const auto& [key, words] : file.Read()) EXPECT_EQ(all.at(key), words) << "length " << length;
  }
}

TEST_F(AlgorithmFileTest, AddsToADamagedFile) {
  file.Add(Key(1), Words(1));
  Write(std::string("\0\xff weft", 7));
  file.Add(Key(2), Words(2));
  EXPECT_EQ(file.Read().size(), 1u);
  EXPECT_EQ(file.Read().at(Key(2)), Words(2));
}

TEST_F(AlgorithmFileTest, WhatCannotBeWrittenIsForgotten) {
  std::filesystem::create_directories(folder);
  std::ofstream(folder + "/plain") << "no folder";
  for (const std::string& nowhere : {std::string(), folder + "/plain/weft/x.txt", std::string("/proc/weft/x.txt")}) {
    AlgorithmFile lost(nowhere, "title");
    AlgorithmFile::Lock lock(lost);
    lost.Add(Key(1), Words(1));
    EXPECT_TRUE(lost.Read().empty());
  }
}

TEST_F(AlgorithmFileTest, WritersAtOnceLoseNothingUnderTheLock) {
  constexpr int kWriters = 4, kEach = 8;
  std::vector<std::thread> writers;
  for (int w = 0; w < kWriters; w++)
    writers.emplace_back([&, w] {
      for (int i = 0; i < kEach; i++) {
        AlgorithmFile::Lock lock(file);
        file.Add(Key(w * kEach + i), Words(1));
      }
    });
  for (std::thread& writer : writers) writer.join();
  EXPECT_EQ(file.Read().size(), size_t(kWriters * kEach));
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(folder + "/cache/weft"), {}), 2);  // file and lock
}

// A lock is waited for as long as ranks search before this one's turn, and not after its holder was killed.
TEST_F(AlgorithmFileTest, TheLockIsWaitedForUntilItsHolderEnds) {
  using std::chrono::milliseconds;
  CacheFile other(path, "of another process");
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  pid_t holder = fork();
  if (holder == 0) {
    CacheFile::Lock lock(other);
    ssize_t written = write(ready[1], "x", 1);
    while (written == 1) pause();
    _exit(1);
  }
  char byte;
  ASSERT_EQ(read(ready[0], &byte, 1), 1);
  auto start = std::chrono::steady_clock::now();
  EXPECT_FALSE(CacheFile::Lock(other, milliseconds(50)).held());
  EXPECT_GE(std::chrono::steady_clock::now() - start, milliseconds(50));
  kill(holder, SIGKILL);
  waitpid(holder, nullptr, 0);
  EXPECT_TRUE(CacheFile::Lock(other, milliseconds(0)).held());
  constexpr std::chrono::seconds kSearch(7);  // under load, a product
  EXPECT_GE(CacheFile::Lock::kLongestWait, 2 * 8 * kSearch) << "8 ranks take two turns";
  close(ready[0]), close(ready[1]);
}

TEST_F(AlgorithmFileTest, WithoutTheLockAReaderSeesAWholeFile) {
  file.Add(Key(0), Words(0));
  std::thread writer([&] {
    for (int64_t m = 1; m < 50; m++) file.Add(Key(m), Words(uint64_t(m)));
  });
  for (size_t last = 0, i = 0; i < 50; i++) {
    AlgorithmMap map = file.Read();
    EXPECT_GE(map.size(), std::max<size_t>(last, 1));
    last = map.size();
  }
  writer.join();
}

TEST(AlgorithmPath, FollowsTheEnvironment) {
  setenv("XDG_CACHE_HOME", "/cache", 1);
  EXPECT_EQ(AlgorithmPath("130100", "NVIDIA H200 (x/y)"), "/cache/weft/cublaslt-130100-NVIDIA-H200--x-y-.txt");
  unsetenv("XDG_CACHE_HOME");
  setenv("HOME", "/home/weft", 1);
  EXPECT_EQ(AlgorithmPath("1", "d"), "/home/weft/.cache/weft/cublaslt-1-d.txt");
  unsetenv("HOME");
  EXPECT_EQ(AlgorithmPath("1", "d"), "");
}

}  // namespace
}  // namespace weft::cuda
