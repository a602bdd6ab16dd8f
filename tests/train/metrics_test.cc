// Metrics: JSON lines that any reader takes and that give doubles back bit for bit; lines that people can read.
#include "weft/train/log/metrics.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <chrono>
#include <cmath>
#include <limits>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>

#include "error_of.h"
#include "fmt/format.h"

namespace weft {
namespace {

using test::ErrorOf;
using Json = nlohmann::json;

TEST(Metrics, DoublesReadBackBitForBit) {
  for (double value : {0.1, 1.0 / 3, 4.158883083359672, 1e-320, 1.7976931348623157e308, 2e-3, 123456789.125}) {
    Json line = Json::parse(JsonLine(StepRecord{.step = 1, .loss = value}));
    EXPECT_EQ(std::bit_cast<uint64_t>(line["loss"].get<double>()), std::bit_cast<uint64_t>(value));
  }
}

TEST(Metrics, StepHoldsTheContractsMembers) {
  StepRecord record{.step = 3, .loss = 2.5, .grad_norm = 1.5, .lr = 1e-3, .ms = 12, .tokens_per_s = 1000};
  Json line = Json::parse(JsonLine(record));
  EXPECT_EQ(line.size(), 9u);
  EXPECT_EQ(line["event"], "step");
  EXPECT_EQ(line["step"], 3);
  EXPECT_EQ(line["tokens_per_s"], 1000);
  EXPECT_TRUE(line["mfu"].is_null());
  EXPECT_TRUE(line["peak_bytes"].is_null());
  record.mfu = 0.5;
  record.peak_bytes = int64_t(1) << 40;
  record.loss = std::nan("");
  record.grad_norm = std::numeric_limits<double>::infinity();
  line = Json::parse(JsonLine(record));
  EXPECT_EQ(line["mfu"], 0.5);
  EXPECT_EQ(line["peak_bytes"], int64_t(1) << 40);
  EXPECT_TRUE(line["loss"].is_null());
  EXPECT_TRUE(line["grad_norm"].is_null());
}

TEST(Metrics, AScaledLossShowsItsScaleAndWhatItSkipped) {
  StepRecord record{.step = 3, .loss = 2.5, .grad_norm = 1.5, .lr = 1e-3, .ms = 12, .tokens_per_s = 1000};
  record.loss_scale = 32768;
  record.skipped = 1;
  Json line = Json::parse(JsonLine(record));
  EXPECT_EQ(line.size(), 11u);
  EXPECT_EQ(line["loss_scale"], 32768);
  EXPECT_EQ(line["skipped"], 1);
  EXPECT_EQ(
      StepLine(record, 10, std::nullopt),
      "step  3/10 |  30% | loss 2.5000 | norm 1.500 | lr 1.00e-03 | 12.0 ms | 1000 tok/s | scale 32768, 1 skipped");
  record.grad_norm = -std::nan("");  // the sign of a NaN says nothing
  EXPECT_NE(StepLine(record, 10, std::nullopt).find("| norm nan |"), std::string::npos);
}

TEST(Metrics, StartEvalAndEndAreEvents) {
  StartRecord start{.version = "0.1", .config = "a: \"b\\c\"\n\ttab\x01é", .ranks = 4, .mesh = {{"dp", "tp"}, {2, 2}}};
  Json line = Json::parse(JsonLine(start));
  EXPECT_EQ(line["event"], "start");
  EXPECT_EQ(line["config"], start.config);
  EXPECT_EQ(line["ranks"], 4);
  EXPECT_FALSE(line.contains("kernels"));
  start.kernels = "sdpa by flash";
  EXPECT_EQ(Json::parse(JsonLine(start))["kernels"], "sdpa by flash");
  start.resumed_step = 3;
  EXPECT_EQ(Json::parse(JsonLine(start))["resumed_step"], 3);
  line = Json::parse(JsonLine(EvalRecord{.step = 7, .val_loss = 1.25, .tokens = 10, .bytes = 20}));
  EXPECT_EQ(line["event"], "eval");
  EXPECT_EQ(line["step"], 7);
  EXPECT_EQ(line["val_loss"], 1.25);
  EXPECT_EQ(line["bytes"], 20);
  line = Json::parse(JsonLine(EvalRecord{.step = 7, .val_loss = 1.25, .tokens = 10}));
  EXPECT_TRUE(line["bytes"].is_null());
  EXPECT_TRUE(line["bits_per_byte"].is_null());
  line = Json::parse(JsonLine(EndRecord{.step = 7, .seconds = 1.5, .loss = 2}));
  EXPECT_EQ(line["event"], "end");
  EXPECT_TRUE(line["val_loss"].is_null());
  EXPECT_EQ(JsonLine(StopRecord{.step = 7, .reason = "SIGTERM", .advice = "a"}),
            "{\"event\":\"stop\",\"step\":7,\"reason\":\"SIGTERM\"}");
}

// For every pair of phases, whether phases between them were noted or not.
TEST(StartTimes, PhasesAreInOrderAndNamed) {
  constexpr size_t kPhases = std::size(kStartPhases);
  std::set<std::string> names;
  for (const StartPhaseRow& row : kStartPhases) EXPECT_TRUE(names.insert(row.name).second) << row.name;
  for (size_t first = 0; first < kPhases; first++) {
    for (size_t second = 0; second < kPhases; second++) {
      StartTimes times;
      times.Note(StartPhase(first));
      auto note = [&] { times.Note(StartPhase(second)); };
      if (second <= first) {
        EXPECT_NE(ErrorOf(note).find(kStartPhases[second].name), std::string::npos);
        continue;
      }
      note();
      EXPECT_LE(*times.seconds()[first], *times.seconds()[second]);
      Json line = Json::parse(JsonLine(StartupRecord{times.seconds()}));
      EXPECT_EQ(line.size(), 3u);
      EXPECT_EQ(line["event"], "startup");
      EXPECT_EQ(line[kStartPhases[second].name], *times.seconds()[second]);
    }
  }
}

// Times are those since the begin of the process, whenever the object was made, to a tick of the clock. Two clocks that
// are read one after the other bound each other.
TEST(StartTimes, CountFromTheBeginOfTheProcess) {
  using Clock = std::chrono::steady_clock;
  auto seconds = [](Clock::duration d) { return std::chrono::duration<double>(d).count(); };
  StartTimes early;
  Clock::time_point before = Clock::now();
  early.Note(StartPhase::kLoaded);
  Clock::time_point between = Clock::now();
  std::this_thread::sleep_for(std::chrono::milliseconds(30));
  StartTimes late;
  Clock::time_point again = Clock::now();
  late.Note(StartPhase::kLoaded);
  double passed = *late.seconds()[0] - *early.seconds()[0];
  constexpr double kRounding = 1e-6;  // of seconds since the boot, in doubles
  EXPECT_GE(passed, seconds(again - between) - kRounding);
  EXPECT_LE(passed, seconds(Clock::now() - before) + kRounding);
  EXPECT_GE(*early.seconds()[0], 0);
}

// The name of a program is the only text in the line, and may look like the fields after it.
TEST(StartTimes, FindsTheBeginAfterAnyName) {
  std::string fields = " S";
  for (int field = 4; field < 22; field++) fields += fmt::format(" {}", -field);
  for (const char* name : {"weft", "", "a b", ") S 1 2", "((", "x) R 1 (y", "\n"}) {
    std::string stat = fmt::format("7 ({}){} 3105334 23 24\n", name, fields);
    EXPECT_EQ(StartTicksIn(stat), 3105334) << stat;
    EXPECT_EQ(StartTicksIn(stat.substr(0, stat.find(" 3105334"))), std::nullopt) << stat;
  }
  EXPECT_EQ(StartTicksIn(""), std::nullopt);
}

TEST(Metrics, BitsPerByteCountsBytesNotTokens) {
  EXPECT_DOUBLE_EQ(*BitsPerByte({.val_loss = std::log(2.0), .tokens = 10, .bytes = 10}), 1);
  EXPECT_DOUBLE_EQ(*BitsPerByte({.val_loss = std::log(256.0), .tokens = 10, .bytes = 40}), 2);
  EXPECT_FALSE(BitsPerByte({.val_loss = 1}));
  EXPECT_FALSE(BitsPerByte({.val_loss = 1, .bytes = 0}));
}

TEST(Metrics, TheStartIsALineAndOneForEachChoice) {
  StartRecord r{
      .ranks = 4, .mesh = {{"dp", "tp"}, {2, 2}}, .parameters = 812345, .tokens_per_step = 2048, .device = "cpu"};
  r.global_nodes = 100, r.local_nodes = 200, r.arena_bytes = 3 << 19;
  EXPECT_EQ(StartLines(r),
            "812.3K parameters, dp=2 x tp=2 on 4 ranks (cpu), 2048 tokens per step, random tokens to train on, 0 to "
            "validate; 100 nodes, 200 local, arena 1.5 MiB");
  r.ranks = 1, r.train_tokens = 7;
  r.resumed_from = "c/step-000003", r.kernels = "sdpa by flash", r.init = "weights of a";
  EXPECT_NE(StartLines(r).find("on 1 rank (cpu), 2048 tokens per step, 7 tokens to train on"), std::string::npos);
  EXPECT_TRUE(StartLines(r).ends_with("\nresumed: c/step-000003\nkernels: sdpa by flash\nweights of a"));
}

TEST(Metrics, HumanLinesShowProgressAndTimeLeft) {
  StepRecord step{.step = 50, .loss = 2.34567, .grad_norm = 0.5, .lr = 2e-3, .ms = 12.34, .tokens_per_s = 62345};
  EXPECT_EQ(StepLine(step, 2000, 125),
            "step   50/2000 |   2% | loss 2.3457 | norm 0.500 | lr 2.00e-03 | 12.3 ms | 62.3K tok/s | 2m05s left");
  step.mfu = 0.123;
  step.peak_bytes = 3 << 20;
  EXPECT_EQ(StepLine(step, 50, std::nullopt),
            "step 50/50 | 100% | loss 2.3457 | norm 0.500 | lr 2.00e-03 | 12.3 ms | 62.3K tok/s | mfu 12.3% | 3.0 MiB");
  EXPECT_EQ(EvalLine({.step = 5, .val_loss = std::log(4.0), .tokens = 100, .bytes = 100, .ms = 1500}, 10),
            "step  5/10 | validation loss 1.3863 nats per token, 2.0000 bits per byte | 100 tokens in 1.5s");
  EXPECT_EQ(EvalLine({.step = 5, .val_loss = std::log(4.0), .tokens = 100, .ms = 1500}, 10),
            "step  5/10 | validation loss 1.3863 nats per token | 100 tokens in 1.5s");
  EXPECT_EQ(EndLine({.step = 10, .seconds = 61, .loss = 1.5, .val_loss = 1.75}, 0),
            "done: 10 steps in 1m01s, loss 1.5000, validation loss 1.7500");
  EXPECT_EQ(EndLine({.step = 10, .seconds = 61, .loss = 1.5}, 7), "done: 3 steps in 1m01s, 10 in all, loss 1.5000");
  EXPECT_EQ(EndLine({.step = 10, .seconds = 61}, 9), "done: 1 step in 1m01s, 10 in all");
  EXPECT_EQ(StopLine({.step = 10, .reason = "SIGTERM", .advice = "resume"}),
            "stopped after step 10 by SIGTERM; resume");
}

// At every width the line fits, or only what always stays is left of it; a wider one has all that a narrower one has,
// in the same order.
TEST(Metrics, StepLinesFitTheWidth) {
  StepRecord step{.step = 50, .loss = 2.34567, .grad_norm = 0.5, .lr = 2e-3, .ms = 12.34, .tokens_per_s = 62345};
  step.mfu = 0.123, step.peak_bytes = 3 << 20, step.loss_scale = 65536;
  auto parts = [&](size_t width) {
    std::string line = StepLine(step, 2000, 125, width);
    std::vector<std::string> found;
    for (size_t at = 0; at != line.npos;) {
      size_t bar = line.find(" | ", at);
      found.push_back(line.substr(at, bar == line.npos ? bar : bar - at));
      at = bar == line.npos ? bar : bar + 3;
    }
    EXPECT_TRUE(line.size() <= width || found.size() == 2) << line;
    return found;
  };
  std::vector<std::string> narrower = parts(0);
  EXPECT_EQ(narrower, (std::vector<std::string>{"step   50/2000", "loss 2.3457"}));
  for (size_t width = 1; width < 160; width++) {
    std::vector<std::string> wider = parts(width);
    auto at = wider.begin();
    for (const std::string& part : narrower) at = std::find(at, wider.end(), part);
    EXPECT_TRUE(at != wider.end()) << width;
    narrower = wider;
  }
  EXPECT_EQ(narrower.size(), 11u);
  step.mfu.reset(), step.loss_scale.reset();
  EXPECT_EQ(StepLine(step, 2000, 125, 80),
            "step   50/2000 | loss 2.3457 | norm 0.500 | 12.3 ms | 62.3K tok/s | 2m05s left");
}

TEST(Metrics, StepMeansAreThoseSinceTheLastLine) {
  StepMean mean;
  for (int round = 0; round < 2; round++) {
    for (int64_t i = 1; i <= 4; i++) {
      StepRecord step{.step = i, .loss = double(i), .grad_norm = double(2 * i), .lr = double(i), .ms = double(i)};
      step.tokens_per_s = 1000 / step.ms * 1e3;  // 1000 tokens each
      step.mfu = step.tokens_per_s / 1e6;
      step.skipped = i;
      if (i == 2) step.grad_norm = std::numeric_limits<double>::infinity();
      mean.Add(step);
    }
    StepRecord shown = mean.Take();
    EXPECT_EQ(shown.step, 4);
    EXPECT_EQ(shown.loss, 2.5);
    EXPECT_DOUBLE_EQ(shown.grad_norm, 16.0 / 3);  // of those that are finite
    EXPECT_EQ(shown.lr, 4);
    EXPECT_EQ(shown.skipped, 4);
    EXPECT_EQ(shown.ms, 2.5);
    EXPECT_DOUBLE_EQ(shown.tokens_per_s, 400'000);  // 4000 tokens in 10 ms, not the mean of the rates
    EXPECT_DOUBLE_EQ(*shown.mfu, 0.4);
  }
}

TEST(Metrics, LongEvaluationsShowProgressEveryFiveSeconds) {
  EvalProgress progress;
  for (int round = 0; round < 2; round++) {
    std::vector<int64_t> shown;
    for (int64_t done = 1; done <= 200; done++)
      if (progress.IsDue({.done = done, .all = 200, .seconds = double(done) / 10})) shown.push_back(done);
    EXPECT_EQ(shown, (std::vector<int64_t>{50, 100, 150}));
  }
  EXPECT_EQ(ProgressLine({.step = 5, .done = 50, .all = 200, .seconds = 5}, 10),
            "step  5/10 | evaluating 25% | 15s left");
}

TEST(Metrics, DurationsAndCountsAreShort) {
  EXPECT_EQ(DurationText(0.04), "0.0s");
  EXPECT_EQ(DurationText(59.4), "59s");
  EXPECT_EQ(DurationText(59.6), "1m00s");
  EXPECT_EQ(DurationText(7500), "2h05m");
  EXPECT_EQ(CountText(9999), "9999");
  EXPECT_EQ(CountText(10700), "10.7K");
  EXPECT_EQ(CountText(999999), "1.0M");
  EXPECT_EQ(CountText(124439808), "124.4M");
}

TEST(Metrics, TimeLeftForgetsASlowFirstStep) {
  Progress progress(100);
  EXPECT_FALSE(progress.SecondsLeft().has_value());
  progress.Add(60000);
  for (int i = 0; i < 49; i++) progress.Add(100);
  EXPECT_DOUBLE_EQ(*progress.SecondsLeft(), 5);
  for (int i = 0; i < 60; i++) progress.Add(100);
  EXPECT_DOUBLE_EQ(*progress.SecondsLeft(), 0);
}

TEST(Metrics, NumbersThatAreNotFiniteEndTheRun) {
  double inf = std::numeric_limits<double>::infinity(), nan = std::numeric_limits<double>::quiet_NaN();
  auto says = [](const absl::Status& status, const std::string& text) {
    EXPECT_TRUE(absl::IsAborted(status));
    EXPECT_NE(std::string(status.message()).find(text), std::string::npos) << status;
  };
  EXPECT_TRUE(CheckFinite(StepRecord{.step = 3, .loss = 2, .grad_norm = 0}).ok());
  for (double bad : {inf, -inf, nan, -nan}) {
    std::string shown = std::isnan(bad) ? "nan" : bad > 0 ? "inf" : "-inf";
    says(CheckFinite(StepRecord{.step = 3, .loss = bad}), "the loss of step 3 is " + shown + ", expected");
    says(CheckFinite(StepRecord{.step = 4, .loss = 2, .grad_norm = bad}), "the gradient norm of step 4 is " + shown);
    says(CheckFinite(EvalRecord{.step = 5, .val_loss = bad, .tokens = 9}), "validation loss after step 5 is " + shown);
  }
  // 0.1 is no number of f32, which a scale is.
  for (double bad : {inf, nan})
    for (double least : {1.0, 0.1}) {
      StepRecord record{.step = 3, .loss = bad, .grad_norm = bad, .loss_scale = float(2 * least), .skipped = 7};
      EXPECT_TRUE(CheckFinite(record, least).ok());
      record.loss_scale = float(least);
      says(CheckFinite(record, least), fmt::format("has fallen to loss_scale.min = {} (7 updates skipped)", least));
      record.loss_scale = float(2 * least);
      record.grad_norm = 1;
      says(CheckFinite(record, least), "the loss of step 3 is");  // it did update
    }
  EXPECT_TRUE(CheckFinite(EvalRecord{.step = 5, .val_loss = 2, .tokens = 9}).ok());
  says(CheckFinite(EvalRecord{.step = 5, .val_loss = 0, .tokens = 0}),
       "the evaluation after step 5 met no target; give more data in data.val, or raise train.eval_batches");
}

}  // namespace
}  // namespace weft
