// Every optimizer trains on every layout to one rank's losses, each to its own; and muon gathers each matrix once.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <memory>
#include <set>

#include "share.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

int Steps() { return std::max(3, 20 / test::Share()); }

struct Param {
  const char* optimizer;  // "sgd plain": without momentum
  const char* family;
  DType dtype;
  Layout layout;
};
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  std::string name = p.param.optimizer;
  std::replace(name.begin(), name.end(), ' ', '_');
  return fmt::format("{}_{}_{}_{}", name, p.param.family, Name(p.param.dtype), Describe(p.param.layout));
}
void PrintTo(const Param& p, std::ostream* out) { *out << p.optimizer << " " << Describe(p.layout); }

Optimizer OptimizerOf(const std::string& name) {
  if (!name.starts_with("sgd")) return WithDefaults(name);
  Optimizer sgd = WithDefaults("sgd");
  if (name == "sgd") sgd.options = {.momentum = 0.9, .nesterov = true};
  return sgd;
}

Job JobOf(const Param& p) {
  return {.model = Tiny(p.family),
          .precision = {p.dtype, p.dtype, p.dtype},
          .steps = Steps(),
          .optimizer = OptimizerOf(p.optimizer)};
}

const RunResult& OneRank(const Param& p) {
  static std::map<std::string, RunResult> cache;
  std::string key = fmt::format("{} {} {}", p.optimizer, p.family, Name(p.dtype));
  if (!cache.contains(key)) cache[key] = Train(JobOf(p), {});
  return cache[key];
}

// AdamW's are those of layouts_test.
std::vector<Param> All() {
  std::vector<Param> all;
  for (const char* optimizer : {"sgd", "sgd plain", "lion", "muon"})
    for (const char* family : {"gpt2", "llama"})
      for (DType dtype : {DType::kF64, DType::kF32}) {
        for (auto [dp, tp] : {std::pair{2, 1}, {3, 1}, {1, 2}, {2, 2}})
          for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
            if (dp > 1 || fsdp == Fsdp::kNone) all.push_back({optimizer, family, dtype, {dp, tp, tp > 1, fsdp, 1}});
        for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
          all.push_back({optimizer, family, dtype, {2, 2, false, Fsdp::kFull, 0, executor}});
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          all.push_back({optimizer, family, dtype, {.dp = 2, .fsdp = fsdp, .micro_batch = 1, .replicate = 2}});
        all.push_back({optimizer, family, dtype, {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .replicate = 2}});
      }
  return all;
}

// In f32 a sum in another order flips signs of lion, and muon's iteration takes small singular values up to 3.44^5 =
// 480 times further apart in each step.
double ToleranceOf(const Param& p) {
  if (p.dtype == DType::kF64) return 1e-9;
  return std::string(p.optimizer).starts_with("sgd") ? 2e-6 : 1e-3;
}

class Optimizers : public testing::TestWithParam<Param> {};

TEST_P(Optimizers, LossesEqualOneRank) {
  const RunResult& want = OneRank(GetParam());
  RunResult got = Train(JobOf(GetParam()), GetParam().layout);
  EXPECT_LE(LossDistance(got, want), ToleranceOf(GetParam()));
  EXPECT_NE(want.losses.front(), want.losses.back());
}

INSTANTIATE_TEST_SUITE_P(All, Optimizers, testing::ValuesIn(test::ShareOf(All())), ParamName);

TEST(Optimizer, EachTrainsToItsOwnLoss) {
  std::set<double> losses;
  const char* optimizers[] = {"adamw", "sgd", "sgd plain", "lion", "muon"};
  for (const char* optimizer : optimizers) losses.insert(OneRank({optimizer, "gpt2", DType::kF64, {}}).losses.back());
  EXPECT_EQ(losses.size(), std::size(optimizers));
}

// ---- Muon. ----

int Gathers(const std::vector<CommLine>& lines, const std::string& axis) {
  int n = 0;
  for (const CommLine& l : lines)
    if (l.phase == Phase::kOptimizer && l.op == Op::kAllGather && l.axis_name == axis) n += l.times;
  return n;
}
std::vector<CommLine> PlanOf(const char* optimizer, const Layout& layout) {
  Job job{.model = TinyLlama(), .optimizer = WithDefaults(optimizer)};
  TrainingStep step(job.model, OptionsOf(job, layout));
  return CommPlan(step.step());
}

// Beside what AdamW's update sends, muon's gathers each matrix of a block once over every axis that shards it, and
// nothing else: what is sliced back costs nothing. A block of Llama's has q, k, v, proj, gate, up and down.
TEST(Muon, GathersEachMatrixOnceAnAxis) {
  constexpr int kMatrices = 2 * 7;
  for (const Layout& layout : std::vector<Layout>{{1, 2},
                                                  {2, 1},
                                                  {2, 1, false, Fsdp::kFull},
                                                  {2, 2, false, Fsdp::kFull},
                                                  {2, 2, false, Fsdp::kGradients, 1}}) {
    SCOPED_TRACE(Describe(layout));
    std::vector<CommLine> adamw = PlanOf("adamw", layout), muon = PlanOf("muon", layout);
    bool dp_shards = layout.dp > 1 && layout.fsdp != Fsdp::kNone;
    EXPECT_EQ(Gathers(muon, "tp") - Gathers(adamw, "tp"), layout.tp > 1 ? kMatrices : 0);
    EXPECT_EQ(Gathers(muon, "dp") - Gathers(adamw, "dp"), dp_shards ? kMatrices : 0);
    EXPECT_EQ(int(muon.size() - adamw.size()), kMatrices * (int(layout.tp > 1) + int(dp_shards)));
  }
}

// The product weights inside blocks, and nothing else: not what a head consists of, as bert's dense.weight.
TEST(Muon, TakesTheMatricesOfBlocks) {
  for (const char* family : kFamilies)
    for (bool tied : {false, true}) {
      TransformerConfig config = Tiny(family);
      config.tie_embeddings = tied;
      std::unique_ptr<Model> model = MakeModel(config);
      int taken = 0;
      for (const Parameter* p : model->Parameters()) {
        bool matrix = p->path().starts_with("blocks.") && p->path().ends_with(".weight") && p->shape().size() > 1;
        EXPECT_EQ(std::string(RuleOf(WithDefaults("muon"), *p).rule->name), matrix ? "muon" : "adamw") << p->path();
        bool proj = p->path().ends_with("attn.proj.weight");  // [H, D, C]
        EXPECT_EQ(p->product_inputs(), matrix ? (proj ? 2 : 1) : 0) << p->path();
        taken += matrix;
      }
      EXPECT_GE(taken, 2 * 4) << family;  // attention has four in each block
    }
}

}  // namespace
}  // namespace weft
