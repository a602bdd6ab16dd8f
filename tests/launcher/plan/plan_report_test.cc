// What weft plan prints: golden files of the summary, the full text and the JSON. Its numbers agree with a step that
// runs.
#include "launcher/plan/plan_report.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <mutex>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>

#include "golden.h"
#include "launcher/plan/traffic.h"
#include "support/rank_run.h"
#include "weft/core/base/memory.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/regather.h"

namespace weft {
namespace {

using nlohmann::json;

struct Case {
  const char *name, *model;
  std::vector<std::string> words;
};
constexpr const char* kGpt =
    "{family: gpt2, layers: 2, heads: 4, dim: 32, ffn: 64, vocab: 64, context: 8, dropout: 0.1}";
constexpr const char* kLlama =
    "{family: llama, layers: 2, heads: 4, kv_heads: 2, dim: 32, ffn: 48, vocab: 64, context: 8}";
const Case kCases[] = {
    {"gpt2", kGpt, {}},
    {"gpt2_sp", kGpt, {"parallel.sequence_parallel=true"}},
    {"gpt2_full", kGpt, {"parallel.fsdp=full"}},
    {"gpt2_full_mb4", kGpt, {"parallel.fsdp=full", "train.micro_batch=1"}},
    {"llama", kLlama, {}},
    // Gradients are reduce-scattered over dp, and those of norms are all-reduced over tp, both in bf16.
    {"gpt2_wire", kGpt, {"parallel.sequence_parallel=true", "parallel.fsdp=full", "precision.wire=bf16"}}};
void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

Config ConfigOf(const Case& c) {
  std::string yaml = fmt::format(
      "model: {}\ndata: {{synthetic: true}}\nmesh: {{dp: 2, tp: 2}}\ntrain: {{steps: 1, global_batch: 8, clip: 1.0}}\n",
      c.model);
  Config config = ParseConfig(yaml, "case.yaml", c.words).value();
  bool resolved = Resolve(config, 4).ok() && ResolveVocab(config, 64).ok();
  WEFT_CHECK(resolved, "the case is no config that can be planned");
  return config;
}

using Key = std::pair<std::string, std::string>;  // (axis, op)
using Totals = std::map<Key, CallCount>;          // per step and rank
// What a rank of a run allocated, and the calls and bytes that it passed to its groups in a step.
struct Ran {
  int64_t state = 0, arena = 0;
  Totals totals;
};

Ran RunOnRank(const Config& config, Context& context, GroupFactory& groups) {
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  StepOptions o = StepOptionsOf(config);
  DeviceMesh mesh(context, groups, o.model.mesh);
  Runtime runtime = RuntimeOf(context, mesh);
  TrainingStep step(ModelOf(config), o);
  State state(o.model.mesh, mesh.coords());
  step.AddEntries(state);
  step.InitParameters(state, runtime);
  auto runner = MakeRunner(ExecutorKind::kCompiled, state, step, runtime);
  state.SetScalar(entry::kUpdates, 1);
  mesh.ResetCounts();
  runner->Step([&](int j) { testing_::FillSlots(state, o, 8, 64, 1, j); });
  Ran ran{.arena = int64_t(runner->arena_bytes())};
  std::set<const Buffer*> buffers;  // several entries may share a buffer
  for (const auto& [name, e] : state.entries())
    if (buffers.insert(e.local.buffer().get()).second) ran.state += int64_t(e.local.buffer()->bytes());
  for (const DeviceMesh::AxisCount& c : mesh.Counts())
    ran.totals[{o.model.mesh.names[size_t(c.axis)], Name(c.op)}] = c.count;
  return ran;
}

std::vector<Ran> RunOnRanks(const Config& config) {
  std::vector<Ran> all;
  std::mutex mutex;
  RunRanks(4, [&](Context& context, GroupFactory& groups) {
    Ran mine = RunOnRank(config, context, groups);
    std::lock_guard lock(mutex);
    all.push_back(std::move(mine));
  });
  return all;
}

Totals TotalsOfPlan(const Config& config) {
  StepOptions o = StepOptionsOf(config);
  TrainingStep step(ModelOf(config), o);
  Totals totals;
  auto add = [&](const LocalProgram& program, int times) {
    for (const CommLine& l : CommPlan(program)) {
      totals[{l.axis_name, Name(l.op)}].calls += times;
      totals[{l.axis_name, Name(l.op)}].bytes += times * l.bytes;
    }
  };
  if (step.accumulate()) add(*step.accumulate(), o.micro_steps - 1);
  add(step.step(), 1);
  return totals;
}

Totals TotalsOfJson(const json& report) {
  Totals totals;
  for (const json& line : report["collectives"]) {
    CallCount& c = totals[{line["axis"], line["op"]}];
    c.calls += line["times"].get<int>();
    c.bytes += line["times"].get<int64_t>() * line["bytes"].get<int64_t>();
  }
  return totals;
}

Totals TotalsOfText(const std::string& text) {
  Totals totals;
  std::regex pattern("\n  (\\w+) +(\\w+) +(\\d+) calls? +[0-9.]+ [KMG]?i?B \\((\\d+) B\\)");
  for (std::sregex_iterator it(text.begin(), text.end(), pattern), end; it != end; ++it) {
    CallCount& c = totals[{(*it)[1], (*it)[2]}];
    c.calls += std::stoi((*it)[3]);
    c.bytes += std::stoll((*it)[4]);
  }
  return totals;
}

std::set<std::string> KeysOf(const json& object) {
  std::set<std::string> keys;
  for (const auto& item : object.items()) keys.insert(item.key());
  return keys;
}

// Removes line numbers, because they change with every edit above them.
std::string WithoutLineNumbers(const std::string& text) {
  return std::regex_replace(text, std::regex("(\\.(?:cc|h)):[1-9]\\d*"), "$1:#");
}

class Plan : public testing::TestWithParam<Case> {
 protected:
  const Config config_ = ConfigOf(GetParam());
  const PlanReport report_ = MakePlanReport(config_);
  const json json_ = json::parse(ToJson(report_));
};

TEST_P(Plan, PrintsWhatTheGoldenFilesSay) {
  std::string name = fmt::format("plan_{}_dp2_tp2", GetParam().name);
  test::ExpectGolden(name + ".txt", WithoutLineNumbers(ToText(report_, /*verbose=*/true)));
  test::ExpectGolden(name + ".summary.txt", WithoutLineNumbers(ToText(report_, /*verbose=*/false)));
  test::ExpectGolden(name + ".json", WithoutLineNumbers(ToJson(report_)));
}

TEST_P(Plan, JsonHasTheKeysOfTheContract) {
  EXPECT_EQ(KeysOf(json_), (std::set<std::string>{"collectives", "memory", "flops"}));
  ASSERT_FALSE(json_["collectives"].empty());
  std::regex place("[a-z0-9_]+\\.cc:[1-9][0-9]*");
  for (const json& line : json_["collectives"]) {
    EXPECT_EQ(KeysOf(line), (std::set<std::string>{"op", "axis", "bytes", "shape", "phase", "times", "scope", "line"}));
    EXPECT_TRUE(std::regex_match(line["line"].get<std::string>(), place)) << line;
  }
}

TEST_P(Plan, TotalsAreThoseOfAStepThatRuns) {
  Totals planned = TotalsOfPlan(config_);
  EXPECT_EQ(TotalsOfJson(json_), planned);
  EXPECT_EQ(TotalsOfText(ToText(report_, /*verbose=*/true)), planned);
  for (const Ran& ran : RunOnRanks(config_)) EXPECT_EQ(ran.totals, planned);
}

TEST_P(Plan, MemoryIsWhatARunAllocates) {
  const json& memory = json_["memory"];
  int64_t sum = 0;
  for (const auto& item : memory.items())
    if (item.key() != "total") sum += item.value().get<int64_t>();
  EXPECT_EQ(memory["total"], sum);
  for (const Ran& ran : RunOnRanks(config_)) {
    EXPECT_EQ(memory["activations"].get<int64_t>() + memory["workspaces"].get<int64_t>(), ran.arena);
    EXPECT_EQ(memory["total"], ran.arena + ran.state);
  }
  std::string total = fmt::format("\nmemory per rank: {} ({} B)\n", BytesText(size_t(sum)), sum);
  EXPECT_NE(ToText(report_, /*verbose=*/true).find(total), std::string::npos);
}

// With or without folded modules, all calls and bytes are there: an entry for several blocks counts once per block.
TEST_P(Plan, ModulesAddUpToTheAxes) {
  Totals folded;
  std::regex blocks("blocks\\.(\\d+) to blocks\\.(\\d+): the same");
  for (const ModuleTraffic& module : TrafficByModule(report_.lines)) {
    std::smatch match;
    bool several = std::regex_match(module.name, match, blocks);
    int64_t times = several ? std::stoi(match[2]) - std::stoi(match[1]) + 1 : 1;
    for (const TrafficRow& row : module.rows) {
      folded[{row.axis, Name(row.op)}].calls += times * row.calls;
      folded[{row.axis, Name(row.op)}].bytes += times * row.bytes;
    }
  }
  EXPECT_EQ(folded, TotalsOfPlan(config_));
}

// A product has one forward and two backward products. Attention has two forward and, because it keeps no scores, five
// backward.
TEST_P(Plan, FlopsAreThoseOfTheProducts) {
  constexpr int64_t kWidth = 32, kVocab = 64, kContext = 8, kTokens = 8 * kContext;
  bool llama = GetParam().model == kLlama;
  int64_t attention = (llama ? 3 : 4) * kWidth * kWidth;  // llama's K and V are half as wide: one square in all
  int64_t mlp = llama ? 3 * kWidth * 48 : 2 * kWidth * 64;
  int64_t weights = 2 * (attention + mlp) + kWidth * kVocab, scores = 2 * kContext * kWidth;
  EXPECT_EQ(json_["flops"], 2 * kTokens * (3 * weights + 7 * scores));
}

INSTANTIATE_TEST_SUITE_P(All, Plan, testing::ValuesIn(kCases), [](const auto& p) { return p.param.name; });

// The peak_bytes that runs of these files logged on an H200.
struct Measured {
  const char* file;
  double gib;
  bool deterministic = false;

  std::string name() const { return std::string(file) + (deterministic ? "_deterministic" : ""); }
};
// Text and JSON name the backends of attention, and what determinism costs. One pass takes heads of 64 and 128 columns.
void ExpectKernels(const PlanReport& report, const json& parsed, bool deterministic, bool one_pass) {
  bool cudnn = report.kernels.find("built without") == std::string::npos;
  std::string want = "sdpa and sdpa_grad by ";
  if (one_pass && (deterministic || !cudnn)) want = "sdpa by ";
  want += cudnn ? "cudnn" : "flash (cudnn: built without";
  EXPECT_TRUE(report.kernels.starts_with(want)) << report.kernels;
  bool has_cost = report.kernels.find("; kernels.deterministic costs ") != std::string::npos;
  bool leads = report.kernels.find("sdpa_grad by flash in one pass") != std::string::npos;
  EXPECT_EQ(leads, one_pass && (deterministic || !cudnn)) << report.kernels;
  EXPECT_TRUE(one_pass || has_cost == (cudnn && deterministic)) << report.kernels;
  EXPECT_EQ(parsed["kernels"], report.kernels);
  EXPECT_NE(ToText(report, /*verbose=*/false).find("\n  kernels: " + report.kernels + "\n"), std::string::npos);
}

class CudaPlan : public testing::TestWithParam<Measured> {};

TEST_P(CudaPlan, PredictsThePeakOfARunWithoutAGpu) {
  Config config = LoadConfig(fmt::format("{}/configs/{}.yaml", WEFT_ROOT, GetParam().file), {"device=cuda"}).value();
  config.kernels.deterministic = GetParam().deterministic;
  ASSERT_TRUE(Resolve(config, 1).ok() && ResolveVocab(config, config.model.vocab).ok());
  PlanReport report = MakePlanReport(config);
  double bytes = GetParam().gib * (1 << 30);
  EXPECT_NEAR(double(report.memory.Total()), bytes, 0.1 * bytes);
  json parsed = json::parse(ToJson(report));
  EXPECT_EQ(parsed["device"], "cuda");
  EXPECT_EQ(parsed["staging"], 2 * parsed["memory"]["slots"].get<int64_t>());
  std::string peak = fmt::format("predicted peak {} on cuda", BytesText(size_t(report.memory.Total())));
  EXPECT_NE(ToText(report, /*verbose=*/false).find(peak), std::string::npos);
  ExpectKernels(report, parsed, config.kernels.deterministic, /*one_pass=*/true);
}

TEST(CudaKernels, OfADeterministicRunAreSaidWithTheirReason) {
  for (bool deterministic : {true, false}) {
    Config config = ConfigOf({"gpt2", kGpt, {"device=cuda", "precision.compute=bf16"}});
    config.kernels.deterministic = deterministic;
    PlanReport report = MakePlanReport(config);
    ExpectKernels(report, json::parse(ToJson(report)), deterministic, /*one_pass=*/false);
  }
}

// With fsdp full, weights are kept for the backward pass if they fit device.memory. They are then gathered only once.
TEST(CudaRegather, GoesByDeviceMemory) {
  auto planned = [](std::vector<std::string> words) {
    words.insert(words.end(), {"device=cuda", "parallel.fsdp=full"});
    PlanReport report = MakePlanReport(ConfigOf({"llama", kLlama, words}));
    int64_t gathers = 0;
    for (const CommLine& line : report.lines) gathers += line.op == Op::kAllGather && line.axis_name == "dp";
    return std::pair(gathers, report);
  };
  auto [kept, keeps] = planned({});
  auto [again, gathers] = planned({"parallel.regather=always"});
  ASSERT_GT(again, kept);
  double needed = double(keeps.memory.Total() + int64_t(kReservedBytes)) / double(1 << 30);
  auto [below, little] = planned({fmt::format("device.memory={}", needed - 1e-6)});
  auto [above, enough] = planned({fmt::format("device.memory={}", needed + 1e-6)});
  EXPECT_EQ(below, again);
  EXPECT_EQ(above, kept);
  EXPECT_NE(ToText(keeps, false).find("device.memory=GIB plans for one"), std::string::npos);
  EXPECT_NE(ToText(little, false).find("not kept but gathered again"), std::string::npos);
  EXPECT_NE(ToText(enough, false).find("kept for the backward pass, as device.memory is"), std::string::npos);
  EXPECT_EQ(ToText(gathers, false).find("gathered weights are"), std::string::npos) << "nothing to decide";
}

// A plan for GPUs does not depend on whether this build has the CUDA library.
TEST(CudaKernels, PlansAreTheSameInEveryBuild) {
  for (const Case& c : {kCases[0], kCases[3], kCases[4]}) {
    Case on_cuda = c;
    on_cuda.words.push_back("device=cuda");
    PlanReport report = MakePlanReport(ConfigOf(on_cuda));
    std::string name = fmt::format("plan_{}_dp2_tp2_cuda", c.name);
    test::ExpectGolden(name + ".txt", WithoutLineNumbers(ToText(report, /*verbose=*/true)));
    test::ExpectGolden(name + ".json", WithoutLineNumbers(ToJson(report)));
  }
}

TEST(Traffic, FoldsOnlyNeighboursThatMoveTheSame) {
  auto line = [](const std::string& scope, int64_t bytes, int times = 1) {
    return CommLine{.op = Op::kAllReduce,
                    .axis_name = "tp",
                    .bytes = bytes,
                    .phase = Phase::kForward,
                    .times = times,
                    .scope = scope};
  };
  std::vector<CommLine> lines{line("embed", 4)};
  for (int b : {0, 1, 2, 3, 4, 5})
    for (const char* part : {"attn", "mlp.down"})
      lines.push_back(line(fmt::format("blocks.{}.{}", b, part), b == 3 ? 8 : 4, 2));
  lines.push_back(line("optimizer.blocks.5.mlp.weight", 16));
  lines.push_back(line("optimizer.clip", 1));
  std::vector<std::string> names;
  for (const ModuleTraffic& module : TrafficByModule(lines)) names.push_back(module.name);
  EXPECT_EQ(names, (std::vector<std::string>{"embed", "blocks.0 to blocks.2: the same", "blocks.3", "blocks.4",
                                             "blocks.5", "clip"}));
  std::vector<TrafficRow> rows = TrafficByModule(lines)[1].rows;
  ASSERT_EQ(rows.size(), 1u);
  EXPECT_EQ(rows[0].calls, 4);
  EXPECT_EQ(rows[0].bytes, 16);
}

TEST(FlopsText, HasUnits) {
  EXPECT_EQ(FlopsText(0), "0 FLOP");
  EXPECT_EQ(FlopsText(999), "999 FLOP");
  EXPECT_EQ(FlopsText(7.537e6), "7.537 MFLOP");
  EXPECT_EQ(FlopsText(2.5e15), "2.5 PFLOP");
}

// Returns the cost of determinism in percent, as the text has it, for Llama 1B with `tokens` tokens per sequence.
int CostOfDeterminismOf(const std::string& tokens) {
  std::string file = fmt::format("{}/configs/llama_1b.yaml", WEFT_ROOT);
  Config config =
      LoadConfig(file, {"device=cuda", "kernels.deterministic=true", "model.context=" + tokens, "train.global_batch=1"})
          .value();
  EXPECT_TRUE(Resolve(config, 1).ok() && ResolveVocab(config, config.model.vocab).ok());
  std::string text = MakePlanReport(config).kernels, before = "kernels.deterministic costs about ";
  size_t at = text.find(before);
  EXPECT_NE(at, text.npos) << text;
  return at == text.npos ? 0 : std::stoi(text.substr(at + before.size()));
}
// By the kernels' times on an H200, 2.6 % (4 x 4096 tokens). Attention's share of a step grows with the length.
TEST(CudaKernels, DeterminismCostsMoreForLongSequences) {
  if (MakePlanReport(ConfigOf({"gpt2", kGpt, {"device=cuda", "precision.compute=bf16"}}))
          .kernels.find("built without") != std::string::npos)
    GTEST_SKIP() << "this build has no cuDNN attention";
  int at_4096 = CostOfDeterminismOf("4096"), at_8192 = CostOfDeterminismOf("8192"),
      at_16384 = CostOfDeterminismOf("16384");
  EXPECT_GE(at_4096, 1);
  EXPECT_LE(at_4096, 4);
  EXPECT_LT(at_4096, at_8192);
  EXPECT_LT(at_8192, at_16384);
  EXPECT_LE(at_16384, 30);
}

INSTANTIATE_TEST_SUITE_P(H200, CudaPlan,
                         testing::Values(Measured{"gpt2_124m", 21.2}, Measured{"llama_1b", 40.7},
                                         Measured{"gpt2_1558m", 59.4}, Measured{"gpt2_124m", 21.0, true},
                                         Measured{"llama_1b", 39.8, true}, Measured{"gpt2_1558m", 59.1, true}),
                         [](const auto& p) { return p.param.name(); });

}  // namespace
}  // namespace weft
