// The predicted step of weft plan, with fabricated rates: laws over meshes and options, and all errors.
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "launcher/plan/predicted_models.h"

namespace weft {
namespace {

using nlohmann::json;
using testing_::FakeRates;
using testing_::kModels;
using testing_::LinesFile;
using testing_::Predicted;
using testing_::RatesOf;
using testing_::Resolved;

std::string Joined(const Words& words) { return fmt::format("{}", fmt::join(words, " ")); }

const std::vector<Words> kWords = {
    {},
    {"train.micro_batch=3"},
    {"mesh.dp=2"},
    {"mesh.tp=2"},
    {"mesh.tp=2", "parallel.sequence_parallel=true"},
    {"mesh.dp=2", "mesh.tp=2", "parallel.fsdp=full", "precision.wire=bf16"},
    {"mesh.dp=2", "parallel.fsdp=gradients", "train.micro_batch=2", "precision.compute=bf16"},
    {"mesh.dp=3", "parallel.fsdp=full", "train.recompute=full"}};

// Calls visit(config, words) for each model, mesh and mode.
template <class Visit>
void ForEachConfig(const std::vector<const char*>& modes, const Visit& visit) {
  for (const char* model : kModels)
    for (Words words : kWords)
      for (const char* mode : modes) {
        words.push_back(fmt::format("parallel.overlap={}", mode));
        if (std::string_view(mode) == "chunks") words.emplace_back("parallel.chunks=2");  // the models are small
        absl::StatusOr<Config> config = Resolved(model, words);
        ASSERT_TRUE(config.ok()) << config.status().message();
        visit(*config, Joined(words));
      }
}

// One after the other, a step takes the sum of its parts, each as often as it runs.
TEST(Predict, WithoutOverlapAStepIsTheSumOfItsParts) {
  RatesFile rates = RatesOf({});
  ForEachConfig({"never"}, [&](const Config& config, const std::string& what) {
    PlannedStep planned(config);
    double sum = 0, products = 0;
    for (const auto& [work, times] : planned.WorkOfStep())
      for (const std::vector<BatchWork>& list : {work.batches, work.copies})
        for (const BatchWork& one : list) {
          double ms = double(times) * *rates.rates.MillisecondsOf(one);
          sum += ms;
          if (one.kind == WorkClass::kProduct) products += ms;
        }
    StepTime time = *Predicted(config, rates).time;
    EXPECT_NEAR(time.total, sum, 1e-9 * sum) << what;
    EXPECT_NEAR(time.products, products, 1e-9 * sum) << what;
    EXPECT_NEAR(time.exposed, time.collectives, 1e-9 * sum) << what;
    EXPECT_EQ(time.lost, 0) << what;
  });
}

// All FLOPs of the step are in its parts: the rates of weft plan are of its own FLOPs.
TEST(Predict, PartsHaveTheFlopsOfTheStep) {
  ForEachConfig({"never"}, [&](const Config& config, const std::string& what) {
    PlannedStep planned(config);
    PlanReport report = MakePlanReport(config, planned);
    double flops = 0;
    for (const auto& [work, times] : planned.WorkOfStep())
      for (const BatchWork& one : work.batches) flops += double(times) * one.flops;
    double of_rank = report.flops / report.mesh.num_ranks();
    if (config.train.recompute.mode == RecomputeMode::kNone)
      EXPECT_NEAR(flops, of_rank, 0.01 * of_rank) << what;  // of 12 rows 3 ranks hold 4 each, so all ranks do the same
    else
      EXPECT_GT(flops, of_rank) << what;
  });
}

TEST(Predict, ScalesWithTheRates) {
  RatesFile once = RatesOf({.lost_share = 0.25}), twice = RatesOf({.slower = 2, .lost_share = 0.25});
  ForEachConfig({"never", "always", "fill", "halves", "chunks"}, [&](const Config& config, const std::string& what) {
    PlanReport fast = Predicted(config, once), slow = Predicted(config, twice);
    EXPECT_NEAR(slow.time->total, 2 * fast.time->total, 1e-9 * slow.time->total) << what;
    EXPECT_NEAR(TokensPerSecond(fast), 2 * TokensPerSecond(slow), 1e-9 * TokensPerSecond(fast)) << what;
  });
}

// Between its longest stream and the sum; a share of what is hidden is lost.
TEST(Predict, OverlapHidesAtMostTheCollectives) {
  RatesFile free = RatesOf({.lost_share = 0}), busy = RatesOf({.lost_share = 1}), half = RatesOf({.lost_share = 0.5});
  ForEachConfig({"always", "fill", "halves", "chunks"}, [&](const Config& config, const std::string& what) {
    StepTime time = *Predicted(config, free).time;
    double kernels = time.products + time.attention + time.memory, rounding = 1e-9 * time.total;
    EXPECT_LE(time.exposed, time.collectives + rounding) << what;
    EXPECT_NEAR(time.total, kernels + time.exposed, rounding) << what;
    EXPECT_GE(time.total, std::max(kernels, 0.0) - rounding) << what;
    double hidden = time.collectives - time.exposed;
    EXPECT_NEAR(Predicted(config, half).time->total, time.total + hidden / 2, rounding) << what;
    EXPECT_NEAR(Predicted(config, busy).time->total, kernels + time.collectives, rounding) << what;
  });
}

// The waits of kernels are all that is exposed, but for collectives that end after the last kernel.
TEST(Predict, NamesWhatKernelsWaitFor) {
  RatesFile rates = RatesOf({});
  int waits = 0;
  ForEachConfig({"always", "fill", "halves", "chunks"}, [&](const Config& config, const std::string& what) {
    StepTime time = *Predicted(config, rates).time;
    double waited = 0;
    for (const Wait& wait : time.waits) {
      waited += wait.ms;
      EXPECT_GT(wait.times, 0) << what;
      EXPECT_EQ(wait.kernel.find("blocks.0"), std::string::npos) << what << ": all blocks are one place";
    }
    EXPECT_LE(waited, time.exposed * (1 + 1e-9)) << what;
    EXPECT_GE(waited, 0.9 * time.exposed) << what;
    waits += int(time.waits.size());
  });
  EXPECT_GT(waits, 0);
}

// The times by place are those of all kernels, and each block has a part in one place.
TEST(Predict, NamesTheTimeOfEachKernel) {
  RatesFile rates = RatesOf({});
  ForEachConfig({"never", "fill"}, [&](const Config& config, const std::string& what) {
    StepTime time = *Predicted(config, rates).time;
    double sum = 0;
    for (const KernelTime& kernel : time.kernels) {
      sum += kernel.ms;
      EXPECT_GT(kernel.times, 0) << what;
      EXPECT_FALSE(kernel.kernel.empty()) << what;
      EXPECT_EQ(kernel.kernel.find("blocks.0"), std::string::npos) << what << ": all blocks are one place";
    }
    EXPECT_NEAR(sum, time.products + time.attention + time.memory, 1e-9 * sum) << what;
  });
}

// A line of a batch of the plan counts more than those of other sizes.
TEST(Predict, TakesTheTimeOfAMeasuredPart) {
  Config config = *Resolved(kModels[1], {});
  RatesFile rates = RatesOf({});
  double before = Predicted(config, rates).time->total;
  PlannedStep planned(config);
  const std::vector<BatchWork> batches = planned.WorkOfStep()[0].first.batches;
  const BatchWork& part = batches[batches.size() / 2];
  auto times = std::count_if(batches.begin(), batches.end(), [&](const BatchWork& b) { return b.name == part.name; });
  Rates one = rates.rates;
  one.Add(part, 1000);
  double after = TimeOf(planned, one)->total;
  EXPECT_GT(after, 1000 * double(times));
  EXPECT_GT(after, before);
}

TEST(Predict, IsPrinted) {
  Config config = *Resolved(kModels[0], {"mesh.dp=2"});
  PlanReport report = Predicted(config, RatesOf({}));
  json parsed = json::parse(ToJson(report));
  EXPECT_EQ(parsed["step_ms"], report.time->total);
  EXPECT_EQ(parsed["tokens_per_s"], TokensPerSecond(report));
  EXPECT_EQ(parsed["parts_ms"]["exposed_collectives"], report.time->exposed);
  std::string text = ToText(report, /*verbose=*/false);
  EXPECT_NE(text.find("\npredicted step: "), text.npos) << text;
  EXPECT_NE(text.find("by rates of fake ("), text.npos) << text;
  PlanReport without = MakePlanReport(config);
  EXPECT_FALSE(json::parse(ToJson(without)).contains("step_ms"));
  EXPECT_EQ(ToText(without, false).find("predicted step"), std::string::npos);
}

// Ranks of a CPU share its cores with more ranks than were measured; those of GPUs do not.
TEST(RatesFile, NotesMoreRanksThanWereMeasured) {
  RatesFile two = RatesOf({.started = 2});
  EXPECT_EQ(NoteOnRanks(two, 1), "");
  EXPECT_EQ(NoteOnRanks(two, 2), "");
  EXPECT_NE(NoteOnRanks(two, 4).find(" was measured by 2 ranks, and this step has 4;"), std::string::npos);
  EXPECT_EQ(NoteOnRanks(RatesOf({.device = "cuda", .started = 2}), 4), "");
  // Kernels that fewer ranks ran count, wherever they are in the file.
  for (auto [first, second] : {std::pair(1, 4), {4, 1}}) {
    std::vector<std::string> lines = FakeRates{.started = first}.Lines(), more = FakeRates{.started = second}.Lines();
    lines.insert(lines.end(), more.begin(), more.end());
    LinesFile file(lines);
    EXPECT_NE(NoteOnRanks(ReadRates(file.path()).value(), 4).find(" was measured by 1 rank,"), std::string::npos);
  }
}

// Errors name the file, the line, what is wrong and the command that makes such a file.
TEST(RatesFile, RefusesWhatItCannotUse) {
  FakeRates fake;
  const std::vector<std::string> good = fake.Lines();
  auto error_of = [](const std::vector<std::string>& lines) {
    LinesFile file(lines);
    std::string message(ReadRates(file.path()).status().message());
    size_t at = message.find(file.path());
    return at == message.npos ? message : message.replace(at, file.path().size(), "FILE");
  };
  auto with = [&](const std::string& line) {
    std::vector<std::string> lines = good;
    lines.insert(lines.begin() + 1, line);
    return error_of(lines);
  };
  EXPECT_EQ(error_of(good), "");
  constexpr const char* kHint = "; weft bench rates config=FILE --json prints such lines";
  EXPECT_EQ(ReadRates("/no/such").status().message(),
            "rates: /no/such cannot be read; weft bench rates config=FILE --json > /no/such makes it");
  EXPECT_EQ(error_of({}), fmt::format("rates: FILE:1: expected a JSON object, got an empty file{}", kHint));
  EXPECT_EQ(with("[1]").substr(0, 42), "rates: FILE:2: expected a JSON object, got");
  EXPECT_EQ(with("{").substr(0, 42), "rates: FILE:2: expected a JSON object, got");
  FakeRates other = fake;
  other.device_name = "other";
  EXPECT_EQ(with(other.Lines()[0]),
            fmt::format("rates: FILE:2: expected the device of line 1, fake, got other{}", kHint));
  other.device = "tpu";
  EXPECT_EQ(with(other.Lines()[0]), fmt::format("rates: FILE:2: expected device cpu or cuda, got \"tpu\"{}", kHint));
  for (double ms : {0.0, -1.0})
    EXPECT_EQ(with(fake.Line("copy", "", "f32", "", R"("bytes":8)", ms)),
              fmt::format("rates: FILE:2: expected a median_ms above 0{}", kHint));
  EXPECT_EQ(with(fake.Line("call", "x", "f32", R"("class":"none","op":"add")", "", 1)),
            fmt::format("rates: FILE:2: expected a class of work, an op and a type of this version{}", kHint));
  EXPECT_EQ(with(fake.Line("gemm", "x", "f99", "", "", 1)),
            fmt::format("rates: FILE:2: expected a type of this version{}", kHint));
  EXPECT_EQ(with(fake.Line("overlap", "", "f32", "", "", 1, R"("lost_share":1.5)")),
            fmt::format("rates: FILE:2: expected a lost_share from 0 to 1{}", kHint));
  for (const char* kind : {"call", "copy", "gemm", "collective", "overlap"}) {
    std::string message = with(fake.Line(kind, "x", "f32", "", "", 1));  // lacks labels and sizes
    EXPECT_EQ(message.substr(0, 68), "rates: FILE:2: expected a line of weft bench, got one with an error:") << kind;
  }
}

// Whole steps are not what a step is predicted from.
TEST(RatesFile, UsesNoTimesOfSteps) {
  FakeRates fake;
  Config config = *Resolved(kModels[0], {});
  double before = Predicted(config, RatesOf(fake)).time->total;
  std::vector<std::string> lines = fake.Lines();
  for (const char* kind : {"step", "sdpa", "dispatch"}) lines.push_back(fake.Line(kind, "x", "f32", "", "", 1e6));
  LinesFile file(lines);
  EXPECT_EQ(Predicted(config, *ReadRates(file.path())).time->total, before);
}

// A file that lacks a kind of line, and the words with which it says so.
TEST(RatesFile, SaysWhatItLacks) {
  FakeRates fake;
  struct Lacking {
    const char *text, *what;
  };
  for (const Lacking& lacking : {Lacking{R"("kind":"gemm")", "a product of f32"},
                                 {R"("op":"sdpa")", "sdpa of f32"},
                                 {R"("op":"sdpa_grad")", "sdpa_grad of f32"},
                                 {R"("kind":"copy")", "copies"},
                                 {R"("op":"all_reduce")", "all_reduce among 2 ranks"}}) {
    std::vector<std::string> lines;
    for (const std::string& line : fake.Lines())
      if (line.find(lacking.text) == line.npos) lines.push_back(line);
    LinesFile file(lines);
    Config config = *Resolved(kModels[0], {"mesh.dp=2"});
    PlannedStep planned(config);
    PlanReport report = MakePlanReport(config, planned);
    EXPECT_EQ(AddTime(planned, *ReadRates(file.path()), report).message(),
              fmt::format("rates: {} has no measurement of {}; weft bench rates config=CONFIG --json, on this mesh, "
                          "measures it, and its lines can be added to the file",
                          file.path(), lacking.what));
    EXPECT_FALSE(report.time);
  }
}

TEST(RatesFile, IsOfOneDevice) {
  FakeRates gpu;
  gpu.device = "cuda";
  RatesFile of_gpu = RatesOf(gpu), of_cpu = RatesOf({});
  EXPECT_TRUE(CheckDevice(of_cpu, DeviceKind::kCpu).ok());
  EXPECT_TRUE(CheckDevice(of_gpu, DeviceKind::kCuda).ok());
  EXPECT_EQ(CheckDevice(of_gpu, DeviceKind::kCpu).message(),
            fmt::format("rates: expected rates of device cpu, for which the step is planned, got those of fake in {}; "
                        "plan with device=cuda, or measure on the other device",
                        of_gpu.path));
  EXPECT_EQ(of_cpu.rates.lost_share(), 1);  // its collectives run on the cores of its kernels
  EXPECT_EQ(of_gpu.rates.lost_share(), 0);
  EXPECT_EQ(RatesOf({.lost_share = 0.5}).rates.lost_share(), 0.5);
}

}  // namespace
}  // namespace weft
