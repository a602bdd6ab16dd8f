// The sinks of a run's records: JSON lines that a killed run leaves whole.
#include "parallel/log/run_log.h"

#include <gtest/gtest.h>

#include "parallel/log/json_log.h"
#include "parallel/temp_folder.h"

namespace weft {
namespace {

using namespace testing_;

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

TEST(JsonLog, WritesWholeLinesAtOnceAndAppends) {
  TempFolder folder;
  std::string path = folder.Path("new/run.jsonl");
  auto log = JsonLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  EndRecord end{.step = 1};
  ASSERT_TRUE((*log)->Write(end).ok());
  EXPECT_EQ(Lines(path).size(), 1u);  // before the log is closed
  ASSERT_TRUE((*JsonLog::Open(path, true))->Write(EvalRecord{.step = 2}).ok());
  EXPECT_EQ(Lines(path), (std::vector<std::string>{JsonLine(end), JsonLine(EvalRecord{.step = 2})}));
  ASSERT_TRUE(JsonLog::Open(path).ok());
  EXPECT_TRUE(Lines(path).empty());
}

TEST(JsonLog, EndsALineThatWasCutShort) {
  TempFolder folder;
  std::string path = folder.Write("run.jsonl", "{}\n{\"event\":\"st");
  ASSERT_TRUE((*JsonLog::Open(path, true))->Write(EndRecord{}).ok());
  EXPECT_EQ(Lines(path), (std::vector<std::string>{"{}", "{\"event\":\"st", JsonLine(EndRecord{})}));
}

TEST(JsonLog, SaysWhatCannotBeWritten) {
  std::string message(JsonLog::Open("/proc/no/run.jsonl").status().message());
  EXPECT_TRUE(message.starts_with("/proc/no/run.jsonl: cannot be written")) << message;
  auto full = JsonLog::Open("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_NE(std::string((*full)->Write(EndRecord{}).message()).find("No space left"), std::string::npos);
}

TEST(RunLog, SwallowsRecordsUntilItIsOpened) { EXPECT_TRUE(RunLog().Write(StepRecord{}).ok()); }

TEST(RunLog, WritesToTheSinksOfTheConfig) {
  TempFolder folder;
  Config config;
  config.train.steps = 2;
  config.log = {.jsonl = folder.Path("a.jsonl")};
  for (std::optional<int64_t> resumed : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    absl::StatusOr<RunLog> log = RunLog::Open(config, resumed);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int64_t step = resumed.value_or(0) + 1; step <= 2; step++)
      ASSERT_TRUE(log->Write(StepRecord{.step = step}).ok());
  }
  EXPECT_EQ(Lines(config.log.jsonl).size(), 3u);
  EXPECT_TRUE(std::filesystem::exists(SavedConfigPath(config.log.jsonl)));
  config.log.jsonl = folder.Path("a.jsonl/b");
  EXPECT_FALSE(RunLog::Open(config, {}).ok());
}

}  // namespace
}  // namespace weft
