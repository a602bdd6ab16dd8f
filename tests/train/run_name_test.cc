// run: NAME: where a run writes, whose name it gets, and that no two runs get the same one.
#include "weft/train/config/run_name.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <thread>

#include "train/temp_folder.h"
#include "weft/train/checkpoint/folder.h"
#include "weft/train/checkpoint/newest_run.h"
#include "weft/train/preflight/run_claim.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using namespace testing_;

constexpr const char* kYaml =
    "model: {family: gpt2, layers: 1, heads: 1, dim: 8, context: 8}\n"
    "data: {synthetic: true}\n"
    "train: {steps: 1, global_batch: 1}\n";

Config Parsed(const std::vector<std::string>& words) {
  absl::StatusOr<Config> config = ParseConfig(kYaml, "a.yaml", words);
  EXPECT_TRUE(config.ok()) << config.status();
  return config.ok() ? *config : Config();
}

class Runs : public testing::Test {
 protected:
  void SetUp() override { fs::current_path(folder_.Path("")); }
  void TearDown() override { fs::current_path("/"); }
  TempFolder folder_;
};

TEST_F(Runs, NameFillsWhatIsNotGiven) {
  Config c = Parsed({"run=a"});
  EXPECT_EQ(c.checkpoint.dir, "runs/a");
  EXPECT_EQ(c.log.jsonl, "runs/a/log.jsonl");
  EXPECT_EQ(c.log.tensorboard, "runs/a/tensorboard");
  EXPECT_EQ(c.log.csv, "");
  EXPECT_EQ(SavedConfigPath(c), "runs/a/config.yaml");
  c = Parsed({"run=a", "log.jsonl=b.jsonl", "checkpoint.dir=c"});
  EXPECT_EQ(c.checkpoint.dir, "c");
  EXPECT_EQ(SavedConfigPath(c), "b.jsonl.config.yaml");
  EXPECT_EQ(c.log.tensorboard, "runs/a/tensorboard");
  c = Parsed({});
  EXPECT_EQ(c.checkpoint.dir + c.log.jsonl + c.log.tensorboard, "");
}

// Every subset of the keys that a run fills: the printed config says the same to whoever reads it.
TEST_F(Runs, MergedConfigsReadBack) {
  const std::vector<std::string> keys = {"checkpoint.dir=c", "log.jsonl=l", "log.tensorboard=t", "run=a"};
  for (unsigned subset = 0; subset < 16; subset++) {
    std::vector<std::string> words;
    for (size_t k = 0; k < keys.size(); k++)
      if (subset >> k & 1) words.push_back(keys[k]);
    Config c = Parsed(words);
    absl::StatusOr<Config> again = ParseConfig(ToYaml(c), "b.yaml", {});
    ASSERT_TRUE(again.ok()) << again.status();
    EXPECT_EQ(ToYaml(*again), ToYaml(c));
    EXPECT_EQ(again->checkpoint.dir, c.checkpoint.dir);
    EXPECT_EQ(again->log.jsonl, c.log.jsonl);
    EXPECT_EQ(again->log.tensorboard, c.log.tensorboard);
    bool of_run = !c.run.empty() && !(subset & 1);
    EXPECT_EQ(ToYaml(c).find("checkpoint:\n  dir:") == std::string::npos, c.checkpoint.dir.empty() || of_run);
  }
}

TEST_F(Runs, BadNamesAreRefused) {
  for (const char* name : {"a/b", "../a", ".a", "-a", "a b", "a\\b", "é"})
    EXPECT_NE(std::string(ParseConfig(kYaml, "a.yaml", {std::string("run=") + name}).status().message())
                  .find("command line: run: expected a name of letters"),
              std::string::npos)
        << name;
  for (const char* name : {"a", "7", "a.b_c-d"}) EXPECT_TRUE(IsRunName(name)) << name;
  for (const char* text : {"", "a b", "-x", "é", "made 1", "ok"}) EXPECT_TRUE(IsRunName(RunNameFrom(text))) << text;
  EXPECT_EQ(RunNameFrom("mine"), "mine");
}

TEST_F(Runs, NumbersComeOneAfterTheOther) {
  std::vector<RunClaim> claims;
  for (int n = 1; n <= 12; n++) {
    Config c = Parsed({"run=a"});
    absl::StatusOr<RunClaim> claim = RunClaim::Make(c, Ranks());
    ASSERT_TRUE(claim.ok()) << claim.status();
    EXPECT_EQ(c.run, NumberedRun("a", n));
    EXPECT_EQ(c.log.jsonl, "runs/" + c.run + "/log.jsonl");
    EXPECT_EQ(claim->note(), n == 1 ? "" : "runs/a is there already, so this run is runs/" + c.run);
    EXPECT_EQ(ResumeWords(c), "run=" + c.run + " checkpoint.resume=auto");
    claims.push_back(*std::move(claim));
  }
  claims.clear();  // none of them has written anything
  EXPECT_TRUE(fs::is_empty("runs"));
}

TEST_F(Runs, FoldersWithSomethingStay) {
  for (const char* file : {"runs/a/log.jsonl", "runs/a-2/tensorboard/events"}) {
    Config c = Parsed({"run=a"});
    absl::StatusOr<RunClaim> claim = RunClaim::Make(c, Ranks());
    ASSERT_TRUE(claim.ok());
    folder_.Write(file, "text");
  }
  EXPECT_TRUE(fs::exists("runs/a/log.jsonl") && fs::exists("runs/a-2/tensorboard/events"));
}

TEST_F(Runs, ResumingKeepsTheName) {
  fs::create_directories("runs/a");
  for (const char* resume : {"auto", "runs/a/step-000001"}) {
    Config c = Parsed({"run=a", std::string("checkpoint.resume=") + resume});
    absl::StatusOr<RunClaim> claim = RunClaim::Make(c, Ranks());
    ASSERT_TRUE(claim.ok()) << claim.status();
    EXPECT_EQ(c.run, "a");
  }
  EXPECT_TRUE(fs::exists("runs/a"));
}

// Whoever asks at the same time, each gets a folder of its own, and the names have no gap.
TEST_F(Runs, NoTwoRunsGetOneName) {
  constexpr int kThreads = 8, kEach = 25;
  std::vector<std::vector<std::string>> names(kThreads);
  std::vector<std::vector<RunClaim>> claims(kThreads);
  std::vector<std::thread> threads;
  for (size_t t = 0; t < kThreads; t++)
    threads.emplace_back([&, t] {
      for (int i = 0; i < kEach; i++) {
        Config c = Parsed({"run=a"});
        absl::StatusOr<RunClaim> claim = RunClaim::Make(c, Ranks());
        ASSERT_TRUE(claim.ok()) << claim.status();
        names[t].push_back(c.run);
        claims[t].push_back(*std::move(claim));
      }
    });
  for (std::thread& thread : threads) thread.join();
  std::set<std::string> all;
  for (const auto& some : names) all.insert(some.begin(), some.end());
  EXPECT_EQ(all.size(), size_t(kThreads * kEach));
  for (int n = 1; n <= kThreads * kEach; n++) EXPECT_TRUE(all.contains(NumberedRun("a", n))) << n;
}

TEST_F(Runs, RanksTakeTheNameOfTheFirst) {
  Config c = Parsed({"run=a"});
  Ranks second{.rank = 1, .size = 2};
  second.gather = [calls = 0](std::string_view) mutable {
    return std::vector<std::string>{calls++ == 0 ? "" : "a-7", ""};  // no fault, then the name
  };
  absl::StatusOr<RunClaim> claim = RunClaim::Make(c, second);
  ASSERT_TRUE(claim.ok()) << claim.status();
  EXPECT_EQ(c.run, "a-7");
  EXPECT_EQ(c.checkpoint.dir, "runs/a-7");
  EXPECT_FALSE(fs::exists("runs"));
}

TEST_F(Runs, WhatCannotBeMadeIsSaidWithTheKey) {
  folder_.Write("runs", "a file");
  Config c = Parsed({"run=a"});
  std::string message(RunClaim::Make(c, Ranks()).status().message());
  EXPECT_TRUE(message.starts_with("command line: run: runs: ")) << message;
}

TEST_F(Runs, TheNewestIsTheOneThatSavedLast) {
  EXPECT_EQ(NewestRun(Ranks()), "");
  int age = 100;
  auto save = [&](const std::string& run, int64_t step) {
    std::string manifest = StepFolder(RunFolder(run), step) + "/manifest.json";
    folder_.Write(manifest, "{}");
    fs::last_write_time(manifest, fs::file_time_type::clock::now() - std::chrono::seconds(age--));
  };
  save("b", 900);
  EXPECT_EQ(NewestRun(Ranks()), "b");
  save("a", 10);
  save("a-2", 5);
  save("a-x", 7);
  fs::create_directories("runs/a-3/step-000001");  // not whole
  folder_.Write("runs/notes.txt", "text");
  EXPECT_EQ(NewestRun(Ranks()), "a-x");
  EXPECT_EQ(NewestRun(Ranks(), "a"), "a-2");
  EXPECT_EQ(NewestRun(Ranks(), "b"), "b");
  EXPECT_EQ(NewestRun(Ranks(), "c"), "");
  save("b", 910);
  EXPECT_EQ(NewestRun(Ranks()), "b");
}

}  // namespace
}  // namespace weft
