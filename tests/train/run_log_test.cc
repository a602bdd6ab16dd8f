// The sinks of a run's records: JSON lines that a killed run leaves whole, and event files that TensorBoard reads.
#include "weft/train/log/run_log.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "train/event_testing.h"
#include "train/temp_folder.h"
#include "weft/train/log/csv_log.h"
#include "weft/train/log/event_log.h"
#include "weft/train/log/event_record.h"
#include "weft/train/log/json_log.h"
#include "weft/train/log/terminal_log.h"

namespace weft {
namespace {

using namespace testing_;

std::string Hex(const std::string& bytes) {
  std::string hex;
  for (char byte : bytes) hex += fmt::format("{:02x}", uint8_t(byte));
  return hex;
}

std::vector<std::string> Lines(const std::string& path) {
  std::ifstream file(path);
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

std::vector<std::string> FilesIn(const std::string& folder) {
  std::vector<std::string> files;
  for (const auto& entry : std::filesystem::directory_iterator(folder)) files.push_back(entry.path().string());
  std::sort(files.begin(), files.end());
  return files;
}

// The bytes that tensorboard 2.21's RecordWriter writes for the same events.
TEST(EventRecord, IsWhatTensorBoardWrites) {
  EXPECT_EQ(Hex(VersionRecord(1.5)),
            "1800000000000000a37f4b2209000000000000f83f1a0d627261696e2e4576656e743a322a28646c");
  EXPECT_EQ(Hex(RestartRecord(1.5, 300)), "100000000000000095fbfe1809000000000000f83f10ac023a020801713b788a");
  Scalar scalars[] = {{"loss/train", 0.1F}, {"mfu", std::numeric_limits<float>::infinity()}};
  EXPECT_EQ(
      Hex(ScalarsRecord(1.5, 300, scalars)),
      "2d000000000000003c418afb09000000000000f83f10ac022a1f0a110a0a6c6f73732f747261696e15cdcccc3d0a0a0a036d66751500"
      "00807fa457044f");
}

TEST(EventRecord, ReadsBack) {
  for (int64_t step : {int64_t(1), int64_t(127), int64_t(128), int64_t(1) << 40})
    for (float value : {0.0F, -1.5e-38F, 3e38F, std::nanf("")}) {
      std::string tag(size_t(step % 300), 't');
      Scalar scalar{tag, value};
      std::vector<Event> events = EventsOf(ScalarsRecord(1e9 + 0.25, step, {&scalar, 1}));
      ASSERT_EQ(events.size(), 1u);
      EXPECT_EQ(events[0].wall_time, 1e9 + 0.25);
      EXPECT_EQ(events[0].step, step);
      EXPECT_EQ(std::bit_cast<uint32_t>(events[0].scalars.at(tag)), std::bit_cast<uint32_t>(value));
    }
}

TEST(EventLog, HoldsEveryNumberThatIsKnown) {
  TempFolder folder;
  auto log = EventLog::Open(folder.Path("a/b"), 4);
  ASSERT_TRUE(log.ok()) << log.status();
  StepRecord step{.step = 5, .loss = 0.1, .grad_norm = std::nan(""), .lr = 1e-3, .ms = 8, .tokens_per_s = 1e6};
  ASSERT_TRUE((*log)->Write(step).ok());
  step.step = 6, step.mfu = 0.5, step.peak_bytes = 1 << 20, step.loss_scale = 4, step.skipped = 2;
  ASSERT_TRUE((*log)->Write(step).ok());
  ASSERT_TRUE((*log)->Write(EvalRecord{.step = 6, .val_loss = 2, .tokens = 3, .bytes = 6}).ok());
  std::vector<Event> events = ReadEventFile((*log)->path());  // before the log is closed
  ASSERT_EQ(events.size(), 5u);
  EXPECT_EQ(events[0].version, "brain.Event:2");
  EXPECT_TRUE(events[1].restart);
  EXPECT_EQ(events[1].step, 5);
  EXPECT_EQ(events[2].scalars.size(), 4u);
  EXPECT_EQ(events[2].scalars.at("loss/train"), 0.1F);
  EXPECT_TRUE(std::isnan(events[2].scalars.at("grad_norm")));
  std::map<std::string, float> all = events[3].scalars;
  EXPECT_EQ(all.size(), 8u);
  EXPECT_EQ(all.at("learning_rate"), 1e-3F);
  EXPECT_EQ(all.at("tokens_per_second"), 1e6F);
  EXPECT_EQ(all.at("mfu"), 0.5F);
  EXPECT_EQ(all.at("memory/peak_bytes"), 1048576.0F);
  EXPECT_EQ(all.at("loss_scale/scale"), 4.0F);
  EXPECT_EQ(all.at("loss_scale/skipped_updates"), 2.0F);
  EXPECT_EQ(events[4].scalars.at("loss/validation"), 2.0F);
  EXPECT_EQ(events[4].scalars.at("bits_per_byte/validation"), float(1 / std::log(2.0)));
  for (const Event& event : events) EXPECT_GE(event.wall_time, events[0].wall_time);
}

// Readers take a folder's files by name, so those of starts in one second must sort as they were made.
TEST(EventLog, AStartMakesAFileOfItsOwnBehindTheOthers) {
  TempFolder folder;
  std::vector<std::string> made;
  for (int64_t start_step : {0, 3, 2}) {
    auto log = EventLog::Open(folder.Path("e"), start_step);
    ASSERT_TRUE(log.ok()) << log.status();
    made.push_back((*log)->path());
    EXPECT_EQ(ReadEventFile(made.back()).at(1).step, start_step + 1);
  }
  EXPECT_EQ(FilesIn(folder.Path("e")), made);
  EXPECT_NE(made[0].find("/events.out.tfevents."), std::string::npos);
}

TEST(EventLog, SaysWhatCannotBeWritten) {
  TempFolder folder;
  std::string file = folder.Write("a", "text"), message(EventLog::Open(file + "/b", 0).status().message());
  EXPECT_TRUE(message.starts_with(file + "/b/events.out.tfevents.")) << message;
  EXPECT_NE(message.find("cannot be written (Not a directory)"), std::string::npos) << message;
}

TEST(JsonLog, WritesWholeLinesAtOnceAndAppends) {
  TempFolder folder;
  std::string path = folder.Path("new/run.jsonl");
  auto log = JsonLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  EndRecord end{.step = 1};
  ASSERT_TRUE((*log)->Write(end).ok());
  EXPECT_EQ(Lines(path).size(), 1u);  // before the log is closed
  ASSERT_TRUE((*JsonLog::Open(path))->Write(EvalRecord{.step = 2}).ok());
  EXPECT_EQ(Lines(path), (std::vector<std::string>{JsonLine(end), JsonLine(EvalRecord{.step = 2})}));
}

TEST(JsonLog, EndsALineThatWasCutShort) {
  TempFolder folder;
  std::string path = folder.Write("run.jsonl", "{}\n{\"event\":\"st");
  ASSERT_TRUE((*JsonLog::Open(path))->Write(EndRecord{}).ok());
  EXPECT_EQ(Lines(path), (std::vector<std::string>{"{}", "{\"event\":\"st", JsonLine(EndRecord{})}));
}

TEST(JsonLog, SaysWhatCannotBeWritten) {
  std::string message(JsonLog::Open("/proc/no/run.jsonl").status().message());
  EXPECT_TRUE(message.starts_with("/proc/no/run.jsonl: cannot be written")) << message;
  auto full = JsonLog::Open("/dev/full");
  ASSERT_TRUE(full.ok());
  EXPECT_NE(std::string((*full)->Write(EndRecord{}).message()).find("No space left"), std::string::npos);
}

// What another process can do to a log that a run is writing: what the note calls it, and what stays at the path.
struct Loss {
  const char* called;
  const char* stays;
  void (*happen)(const std::string& path);
};
const Loss kLosses[] = {
    {"was removed", "", [](const std::string& path) { std::filesystem::remove(path); }},
    {"was removed", "",
     [](const std::string& path) { std::filesystem::remove_all(std::filesystem::path(path).parent_path()); }},
    {"was moved or replaced", "", [](const std::string& path) { std::filesystem::rename(path, path + ".1"); }},
    {"was moved or replaced", "{\"of\":\"another run\"}\n",
     [](const std::string& path) {
       std::filesystem::rename(path, path + ".1");
       std::ofstream(path) << "{\"of\":\"another run\"}\n";
     }},
    {"was cut short", "", [](const std::string& path) { std::filesystem::resize_file(path, 0); }},
    {"was cut short", "{\"cu\n", [](const std::string& path) { std::ofstream(path) << "{\"cu"; }},
};

// Records continue at the path that the config names, the start first: what reads a log finds a whole one.
TEST(JsonLog, ContinuesAtItsPathWhenTheFileIsLost) {
  StartRecord start{.version = "1", .config = "a: 1\n"};
  for (const Loss& loss : kLosses)
    for (int64_t at : {0, 1, 3}) {
      TempFolder folder;
      std::string path = folder.Path("new/run.jsonl"), expected = loss.stays + JsonLine(start) + "\n";
      auto log = JsonLog::Open(path);
      ASSERT_TRUE(log.ok() && (*log)->Write(start).ok());
      for (int64_t step = 1; step <= 5; step++) {
        if (step == at + 1) loss.happen(path);
        ASSERT_TRUE((*log)->Write(StepRecord{.step = step}).ok());
        if (step > at) expected += JsonLine(StepRecord{.step = step}) + "\n";
      }
      EXPECT_EQ((*log)->TakeNotes(),
                std::vector{fmt::format(
                    "{} {} while the run writes to it: the records so far are missing there, later ones follow", path,
                    loss.called)});
      std::ifstream file(path);
      EXPECT_EQ(std::string(std::istreambuf_iterator<char>(file), {}), expected) << loss.called << " at " << at;
    }
}

TEST(JsonLog, SaysThatALostFileCannotBeWrittenAnew) {
  TempFolder folder;
  std::string path = folder.Path("run.jsonl");
  auto log = JsonLog::Open(path);
  ASSERT_TRUE(log.ok() && (*log)->Write(StartRecord{}).ok());
  std::filesystem::remove(path);
  std::filesystem::create_directory(path);
  EXPECT_EQ((*log)->Write(StepRecord{.step = 1}).message(), path + ": cannot be written (Is a directory)");
}

TEST(EventLog, ContinuesInANewFileWhenItsFileIsLost) {
  for (bool moved : {false, true}) {
    TempFolder folder;
    auto log = EventLog::Open(folder.Path("e"), 0);
    ASSERT_TRUE(log.ok() && (*log)->Write(StepRecord{.step = 1}).ok());
    std::string first = (*log)->path();
    moved ? std::filesystem::rename(first, folder.Path("a")) : void(std::filesystem::remove(first));
    ASSERT_TRUE((*log)->Write(EvalRecord{.step = 7, .val_loss = 2}).ok());
    ASSERT_TRUE((*log)->Write(EvalRecord{.step = 8, .val_loss = 1}).ok());
    EXPECT_EQ((*log)->TakeNotes(),
              std::vector{fmt::format(
                  "{} {} while the run writes to it: the records so far are missing, later ones follow in {}", first,
                  moved ? "was moved or replaced" : "was removed", (*log)->path())});
    std::vector<Event> events = ReadEventFile((*log)->path());
    ASSERT_EQ(events.size(), 4u);
    EXPECT_EQ(events[1].step, 7);
    EXPECT_EQ(events[3].scalars.at("loss/validation"), 1.0F);
  }
}

TEST(RunLog, SwallowsRecordsUntilItIsOpened) { EXPECT_TRUE(RunLog().Write(StepRecord{}).ok()); }

// The log of an earlier run keeps its lines under another name when a run starts from the beginning, and that is
// reported. A new or empty file has nothing to keep, and a run that resumes adds to what is there.
TEST(RunLog, MovesAnOlderLogAside) {
  TempFolder folder;
  Config config;
  config.log.jsonl = folder.Path("a.jsonl");
  config.log.csv = folder.Path("a.csv");
  auto said = [&](std::optional<int64_t> resumed, const char* before) {
    if (before) folder.Write("a.jsonl", before);
    std::filesystem::remove(config.log.csv);
    testing::internal::CaptureStderr();
    Notices notices(true);
    EXPECT_TRUE(RunLog::Open(config, resumed, notices).ok());
    return testing::internal::GetCapturedStderr();
  };
  EXPECT_EQ(said({}, nullptr), "");
  EXPECT_EQ(said({}, ""), "");
  EXPECT_EQ(said(3, "{}\n"), "");
  EXPECT_EQ(Lines(config.log.jsonl).size(), 1u);
  for (int run = 1; run <= 12; run++) {
    std::string line = fmt::format("{{\"run\": {}}}", run), aside = fmt::format("{}.{}", config.log.jsonl, run);
    EXPECT_EQ(said({}, (line + "\n").c_str()), "note: " + config.log.jsonl + " had the log of another run, which is " +
                                                   aside + " now; a run that is resumed appends\n");
    EXPECT_TRUE(Lines(config.log.jsonl).empty());
    EXPECT_EQ(Lines(aside), std::vector<std::string>{line});
  }
}

TEST(CsvLog, IsATableOfTheSteps) {
  TempFolder folder;
  std::string path = folder.Path("new/a.csv");
  StepRecord step{.step = 5, .loss = 1.0 / 3, .grad_norm = std::nan(""), .lr = 1e-3, .ms = 8, .tokens_per_s = 1e6};
  {
    auto log = CsvLog::Open(path);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE((*log)->Write(StartRecord{}).ok());
    ASSERT_TRUE((*log)->Write(step).ok());
    EXPECT_EQ(Lines(path).size(), 2u);  // before the log is closed
  }
  auto log = CsvLog::Open(path);  // of a run that resumes
  ASSERT_TRUE(log.ok()) << log.status();
  step.step = 6, step.mfu = 0.5, step.peak_bytes = int64_t(1) << 40, step.loss_scale = 4, step.skipped = 2;
  ASSERT_TRUE((*log)->Write(step).ok());
  ASSERT_TRUE((*log)->Write(EvalRecord{.step = 6, .val_loss = 2}).ok());
  EXPECT_EQ(Lines(path),
            (std::vector<std::string>{"step,loss,grad_norm,lr,ms,tokens_per_s,mfu,peak_bytes,loss_scale,skipped",
                                      "5,0.33333333333333331,nan,0.001,8,1000000,,,,",
                                      "6,0.33333333333333331,nan,0.001,8,1000000,0.5,1099511627776,4,2"}));
}

// As many cells as names on every line, and each double reads back bit for bit.
TEST(CsvLog, DoublesReadBack) {
  TempFolder folder;
  std::string path = folder.Path("a.csv");
  auto log = CsvLog::Open(path);
  ASSERT_TRUE(log.ok()) << log.status();
  std::vector<double> values = {0.1, 1.0 / 3, 4.158883083359672, 1e-320, 1.7976931348623157e308, 123456789.125};
  for (double value : values) ASSERT_TRUE((*log)->Write(StepRecord{.step = 1, .loss = value}).ok());
  std::vector<std::string> lines = Lines(path);
  ASSERT_EQ(lines.size(), values.size() + 1);
  for (size_t i = 0; i < values.size(); i++) {
    const std::string& line = lines[i + 1];
    EXPECT_EQ(std::count(line.begin(), line.end(), ','), std::count(lines[0].begin(), lines[0].end(), ','));
    EXPECT_EQ(std::strtod(line.c_str() + line.find(',') + 1, nullptr), values[i]);
  }
}

TEST(CsvLog, ContinuesAtItsPathWhenTheFileIsLost) {
  for (const Loss& loss : kLosses) {
    TempFolder folder;
    std::string path = folder.Path("new/a.csv");
    auto log = CsvLog::Open(path);
    ASSERT_TRUE(log.ok() && (*log)->Write(StepRecord{.step = 1}).ok());
    loss.happen(path);
    ASSERT_TRUE((*log)->Write(StepRecord{.step = 2}).ok());
    EXPECT_EQ((*log)->TakeNotes(),
              std::vector{
                  fmt::format("{} {} while the run writes to it: the lines so far are missing there, later ones follow",
                              path, loss.called)});
    EXPECT_TRUE((*log)->TakeNotes().empty());
    EXPECT_TRUE(Lines(path).back().starts_with("2,")) << loss.called;
  }
}

// Colours are added to a line and change nothing else of it; a name of a file brings none.
TEST(TerminalLog, ColorsOnlyWhereAsked) {
  auto printed = [](bool color, const LogRecord& record) {
    testing::internal::CaptureStdout();
    TerminalLog log(10, 1, 0, {.width = 80, .color = color});
    EXPECT_TRUE(log.Write(record).ok());
    return testing::internal::GetCapturedStdout();
  };
  for (const LogRecord& record : std::vector<LogRecord>{
           StepRecord{.step = 1, .loss = 2, .ms = 1}, EvalRecord{.step = 1, .val_loss = 2}, EndRecord{.step = 10},
           StopRecord{.step = 1, .reason = "SIGTERM", .advice = "a\x1b[2J"}}) {
    std::string plain = printed(false, record), colored = printed(true, record);
    EXPECT_EQ(plain.find('\x1b'), plain.npos);
    EXPECT_NE(colored.find('\x1b'), colored.npos);
    for (const char* code : {"\x1b[1m", "\x1b[32m", "\x1b[33m", "\x1b[36m", "\x1b[0m"})
      while (colored.find(code) != colored.npos) colored.erase(colored.find(code), std::string(code).size());
    EXPECT_EQ(colored, plain);
  }
}

TEST(TerminalLog, StyleIsOfTheTerminalOrTheVariables) {
  setenv("COLUMNS", "123", 1);
  EXPECT_EQ(TerminalStyle::OfStdout().color, isatty(STDOUT_FILENO) && !getenv("NO_COLOR"));
  if (isatty(STDOUT_FILENO)) GTEST_SKIP() << "a terminal has a width of its own";
  EXPECT_EQ(TerminalStyle::OfStdout().width, 123u);
  for (const char* none : {"", "x", "0"}) {
    setenv("COLUMNS", none, 1);
    EXPECT_EQ(TerminalStyle::OfStdout().width, 80u);
  }
  unsetenv("COLUMNS");
}

// A line on stderr each, and a record of the log: those from before there is a log first, then what a sink has to say
// while a record is written. Another rank says nothing.
TEST(RunLog, HasWhatTheNoticesSay) {
  for (bool speaks : {true, false}) {
    TempFolder folder;
    Config config;
    config.train.steps = 1;
    config.log = {.jsonl = folder.Path("a.jsonl"), .csv = folder.Path("a.csv")};
    testing::internal::CaptureStderr();
    Notices notices(speaks);
    notices.Say("before");
    absl::StatusOr<RunLog> log = RunLog::Open(config, {}, notices);
    ASSERT_TRUE(log.ok()) << log.status();
    ASSERT_TRUE(log->Write(StartRecord{}).ok());
    notices.Follow([&](const std::string& text) { EXPECT_TRUE(log->Write(NoteRecord{text}).ok()); });
    notices.Say("a \"word\"");
    std::filesystem::remove(config.log.csv);
    ASSERT_TRUE(log->Write(StepRecord{.step = 1}).ok());
    notices.Follow(nullptr);
    std::string lost = config.log.csv +
                       " was removed while the run writes to it: the lines so far are missing there, "
                       "later ones follow";
    EXPECT_EQ(testing::internal::GetCapturedStderr(),
              speaks ? "note: before\nnote: a \"word\"\nnote: " + lost + "\n" : "");
    std::vector<std::string> notes;
    for (const std::string& line : Lines(config.log.jsonl))
      if (line.find("\"event\":\"note\"") != line.npos) notes.push_back(line);
    std::vector<std::string> want;
    for (const std::string& text : {std::string("before"), std::string("a \\\"word\\\""), lost})
      if (speaks) want.push_back("{\"event\":\"note\",\"text\":\"" + text + "\"}");
    EXPECT_EQ(notes, want);
  }
}

// The other sinks continue.
TEST(RunLog, DropsASinkOnAFullDiskWithOneError) {
  TempFolder folder;
  Config config;
  config.train.steps = 3;
  config.log = {.jsonl = folder.Path("a.jsonl"), .csv = folder.Path("a.csv")};
  std::filesystem::create_symlink("/dev/full", config.log.jsonl);
  Notices notices(true);
  absl::StatusOr<RunLog> log = RunLog::Open(config, {}, notices);
  ASSERT_TRUE(log.ok()) << log.status();
  absl::Status full = log->Write(StepRecord{.step = 1});
  EXPECT_NE(full.message().find(config.log.jsonl), std::string::npos) << full;
  EXPECT_NE(full.message().find("No space left"), std::string::npos) << full;
  for (int64_t step : {2, 3}) EXPECT_TRUE(log->Write(StepRecord{.step = step}).ok());
  EXPECT_EQ(Lines(config.log.csv).size(), 4u);
}

// The second run would rename the file of the first, which would then write to the new one.
TEST(RunLog, TwoRunsDoNotShareAFile) {
  TempFolder folder;
  Config config;
  config.train.steps = 2;
  config.log.csv = folder.Path("a.csv");
  Notices notices(true);
  absl::StatusOr<RunLog> first = RunLog::Open(config, {}, notices);
  ASSERT_TRUE(first.ok() && first->Write(StepRecord{.step = 1}).ok());
  absl::Status second = RunLog::Open(config, {}, notices).status();
  EXPECT_EQ(second.message(), fmt::format("log.csv: expected a file that no other run writes to, got {}, which one "
                                          "does; wait for its end, or give another file",
                                          config.log.csv));
  ASSERT_TRUE(first->Write(StepRecord{.step = 2}).ok());
  EXPECT_EQ(Lines(config.log.csv).size(), 3u);
  EXPECT_FALSE(std::filesystem::exists(config.log.csv + ".1"));
}

TEST(RunLog, WritesToTheSinksOfTheConfig) {
  TempFolder folder;
  Config config;
  config.train.steps = 2;
  config.log = {.jsonl = folder.Path("a.jsonl"), .tensorboard = folder.Path("events")};
  Notices notices(true);
  for (std::optional<int64_t> resumed : {std::optional<int64_t>(), std::optional<int64_t>(1)}) {
    absl::StatusOr<RunLog> log = RunLog::Open(config, resumed, notices);
    ASSERT_TRUE(log.ok()) << log.status();
    for (int64_t step = resumed.value_or(0) + 1; step <= 2; step++)
      ASSERT_TRUE(log->Write(StepRecord{.step = step}).ok());
  }
  EXPECT_EQ(Lines(config.log.jsonl).size(), 3u);
  EXPECT_TRUE(std::filesystem::exists(SavedConfigPath(config.log.jsonl)));
  std::vector<std::string> files = FilesIn(config.log.tensorboard);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(ReadEventFile(files[1]).size(), 3u);
  config.log.jsonl = folder.Path("a.jsonl/b");
  EXPECT_FALSE(RunLog::Open(config, {}, notices).ok());
}

}  // namespace
}  // namespace weft
