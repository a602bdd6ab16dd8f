// Parameter groups. A neutral group changes no bit, lr_scale 0 changes no parameter, each optimizer of a run updates
// its parameters as it does by itself, and all layouts have the losses of one rank.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <map>
#include <memory>

#include "share.h"
#include "support/rank_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using namespace testing_;

constexpr const char* kOptimizers[] = {"adamw", "sgd", "lion", "muon"};

Optimizer Of(const std::string& name) {
  Optimizer optimizer = WithDefaults(name);
  if (name == "sgd") optimizer.options.momentum = 0.9;
  optimizer.options.weight_decay = 0.1;  // the value of OptionsOf
  return optimizer;
}
ParameterGroup By(const std::string& match, const std::string& optimizer, double lr_scale = 1) {
  return {.match = match, .lr_scale = lr_scale, .rule = &OptimizerNamed(optimizer), .options = Of(optimizer).options};
}

Job JobOf(const std::string& optimizer, std::vector<ParameterGroup> groups = {}) {
  Job job{.model = TinyLlama(), .precision = {DType::kF64, DType::kF64, DType::kF64}, .steps = 3};
  job.optimizer = Of(optimizer);
  job.optimizer.groups = std::move(groups);
  return job;
}

using Values = std::map<std::string, std::string>;  // per parameter, the bytes of rank 0's part

Values ValuesOf(RankRun& run) {
  Values values;
  for (const Parameter* p : run.training.model().Parameters()) {
    const Tensor& local = run.state.At(p->path()).local;
    values[p->path()] = std::string(reinterpret_cast<const char*>(local.data()), local.bytes());
  }
  return values;
}

// Rank 0's parameters before the first step, and after the last one with the given learning rate.
struct Moved {
  Values before, after;
};
Moved Move(const Job& job, const Layout& layout = {}, double lr = 1e-3) {
  Moved moved;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    RankRun run(job, layout, context, mesh);
    Values before = ValuesOf(run);
    for (int step = 1; step <= job.steps; step++) {
      run.state.SetScalar(entry::kLr, lr);
      run.state.SetScalar(entry::kStep, step);
      run.state.SetScalar(entry::kUpdates, step);
      run.runner->Step([&](int j) { run.Fill(step, j); });
    }
    if (context.rank() == 0) moved = {before, ValuesOf(run)};
  });
  return moved;
}

TEST(Groups, NeutralOnesChangeNoBit) {
  for (const char* name : kOptimizers) {
    SCOPED_TRACE(name);
    Moved plain = Move(JobOf(name));
    std::vector<ParameterGroup> decaying;
    std::unique_ptr<Model> model = MakeModel(TinyLlama());
    for (const Parameter* p : model->Parameters())
      if (p->decay()) decaying.push_back({.match = p->path(), .weight_decay = 0.1});
    for (const std::vector<ParameterGroup>& neutral : {std::vector<ParameterGroup>{{.match = "*"}},
                                                       {{.match = "*norm*"}, {.match = "*.mlp.*"}},
                                                       {By("*", name)},
                                                       {By("*", "lion", 7), {.match = "*"}},
                                                       decaying})
      EXPECT_EQ(Move(JobOf(name, neutral)).after, plain.after);
  }
}

TEST(Groups, NoDecayIsNoDecayHoweverItIsGiven) {
  for (const char* name : kOptimizers) {
    SCOPED_TRACE(name);
    ParameterGroup without = By("*", name);
    without.options.weight_decay = 0;
    Values want = Move(JobOf(name, {without})).after;
    EXPECT_EQ(Move(JobOf(name, {{.match = "*", .weight_decay = 0}})).after, want);
    EXPECT_NE(Move(JobOf(name)).after, want);
  }
}

TEST(Groups, ScaleZeroMovesNothing) {
  for (const char* name : kOptimizers)
    for (const Layout& layout : std::vector<Layout>{{}, {2, 2, true, Fsdp::kFull, 1}, {2, 1, false, Fsdp::kGradients}})
      for (const char* match : {"*", "*.attn.*", "*norm*", "embed.weight"}) {
        SCOPED_TRACE(fmt::format("{} {} {}", name, Describe(layout), match));
        Moved moved = Move(JobOf(name, {{.match = match, .lr_scale = 0, .weight_decay = 0.5}}), layout);
        for (const auto& [path, before] : moved.before)
          EXPECT_EQ(moved.after[path] == before, MatchesGlob(match, path)) << path;
      }
}

// With equal weights and gradients, a group's optimizer updates its parameters as it would if all parameters were its
// own. With lr_scale 0.5 the update is that of half the learning rate.
TEST(Groups, EachOptimizerMovesItsOwnAsAlone) {
  const std::pair<const char*, const char*> matches[] = {
      {"*", "adamw"}, {"*.attn.*", "muon"}, {"*.mlp.*", "sgd"}, {"*norm*", "lion"}, {"embed.*", "sgd"}};
  for (double lr_scale : {1.0, 0.5}) {
    std::vector<ParameterGroup> groups;
    for (auto [match, name] : matches) groups.push_back(By(match, name, lr_scale));
    Job mixed = JobOf("muon", groups);
    mixed.steps = 1;
    Values got = Move(mixed).after;
    std::map<std::string, Values> alone;
    for (const char* name : kOptimizers) {
      Job job = JobOf(name);
      job.steps = 1;
      alone[name] = Move(job, {}, 1e-3 * lr_scale).after;
    }
    for (const auto& [path, value] : got) {
      std::string name;
      for (auto [match, optimizer] : matches)
        if (MatchesGlob(match, path)) name = optimizer;
      EXPECT_EQ(value, alone[name][path]) << path << " by " << name << " at " << lr_scale;
    }
  }
}

TEST(Groups, TheLastThatMatchesDecidesAlone) {
  Optimizer optimizer = Of("muon");
  optimizer.groups = {{.match = "*", .lr_scale = 2, .weight_decay = 0.7}, By("*.attn.*", "sgd", 3), {.match = "*.q.*"}};
  std::unique_ptr<Model> model = MakeModel(TinyLlama());
  for (const Parameter* p : model->Parameters()) {
    ParameterRule rule = RuleOf(optimizer, *p), plain = RuleOf(Of("muon"), *p);
    bool query = p->path().find(".q.") != std::string::npos, attention = p->path().find(".attn.") != std::string::npos;
    double scale = query ? 1 : attention ? 3 : 2, decay = query ? plain.options.weight_decay : attention ? 0.1 : 0.7;
    EXPECT_EQ(rule.lr_scale, scale) << p->path();
    EXPECT_EQ(rule.options.weight_decay, decay) << p->path();  // also for norms
    EXPECT_EQ(rule.rule, attention && !query ? FindOptimizer("sgd") : plain.rule) << p->path();
  }
}

// ---- Layouts. ----

Job Mixed(const char* family) {
  std::vector<ParameterGroup> groups{By("*.mlp.*", "muon", 0.5), By("*.attn.*", "sgd", 30), By("*norm*", "lion")};
  groups.push_back({.match = "embed.*", .lr_scale = 0.1, .weight_decay = 0});
  groups.push_back({.match = "*norm2*", .weight_decay = 0.3});
  Job job = JobOf("adamw", groups);
  job.model = Tiny(family);
  job.steps = std::max(3, 20 / test::Share());
  return job;
}

struct Param {
  const char* family;
  Layout layout;
};
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}", p.param.family, Describe(p.param.layout));
}
void PrintTo(const Param& p, std::ostream* out) { *out << p.family << " " << Describe(p.layout); }

std::vector<Param> All() {
  std::vector<Param> all;
  for (const char* family : {"gpt2", "llama"}) {
    for (auto [dp, tp] : {std::pair{2, 1}, {1, 2}, {2, 2}})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        for (int64_t micro : {0, 1})
          if (dp > 1 || fsdp == Fsdp::kNone) all.push_back({family, {dp, tp, tp > 1, fsdp, micro}});
    for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
      all.push_back({family, {2, 2, false, Fsdp::kFull, 0, executor}});
    Layout copied{2, 1, false, Fsdp::kFull, 1};
    copied.replicate = 2;
    all.push_back({family, copied});
  }
  return all;
}

class GroupLayouts : public testing::TestWithParam<Param> {};

TEST_P(GroupLayouts, LossesEqualOneRank) {
  static std::map<std::string, RunResult> one_rank;
  Job job = Mixed(GetParam().family);
  if (!one_rank.contains(GetParam().family)) one_rank[GetParam().family] = Train(job, {});
  const RunResult& want = one_rank[GetParam().family];
  RunResult got = Train(job, GetParam().layout);
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++) {
    ASSERT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]) << "step " << i + 1;
    ASSERT_NEAR(got.norms[i], want.norms[i], 1e-9 * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_NE(want.losses.front(), want.losses.back());
}

INSTANTIATE_TEST_SUITE_P(All, GroupLayouts, testing::ValuesIn(All()), ParamName);

}  // namespace
}  // namespace weft
