// Training in f16, on every layout and executor. Scaled gradients agree with those of f32, a step with non-finite
// gradients changes nothing, and the scale adapts.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>

#include "share.h"
#include "support/rank_run.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/eager.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using namespace testing_;

constexpr Precision kF16{DType::kF16, DType::kF32, DType::kF32};
using Values = std::map<std::string, std::vector<double>>;

// Returns the gradients of the mean loss in the first micro-step, with the loss scale divided out. They are exact up to
// a power of two.
Values Gradients(const Job& job) {
  Values gradients;
  OnMesh({}, [&](Context& context, DeviceMesh& mesh) {
    RankRun run(job, {}, context, mesh);
    run.Fill(1, 0);
    EagerBuilder eager(run.runtime, run.state.binder(), {run.options.seed, RandomPhase::kTrain});
    BuilderScope builder(eager);
    ModelScope scope(run.options.model);
    MicroSums sums = Micro(run.training.model(), run.options);
    bool scaled = job.precision.compute == DType::kF16;
    double targets = std::exp2(std::floor(std::log2(double(run.options.rows * run.options.tokens))));
    double factor = 1 / (scaled ? job.loss_scale.initial : targets);
    std::vector<const Parameter*> parameters = run.training.model().Parameters();
    for (size_t i = 0; i < parameters.size(); i++) {
      std::vector<double> values = eager.ToLocal(sums.gradients[i].value, Sharding(2)).ToDoubles();
      for (double& v : values) v *= factor;
      gradients[parameters[i]->path()] = values;
    }
  });
  return gradients;
}

double Norm(const std::vector<double>& values) {
  double sum = 0;
  for (double v : values) sum += v * v;
  return std::sqrt(sum);
}

void ExpectClose(const Values& got, const Values& want, double tolerance, double floor, const std::string& what) {
  for (const auto& [path, values] : want) {
    std::vector<double> difference = got.at(path);
    for (size_t i = 0; i < values.size(); i++) difference[i] -= values[i];
    EXPECT_LE(Norm(difference), tolerance * std::max(Norm(values), floor)) << what << " " << path;
  }
}

// A rounding of f16 costs at most 2^-12 of a value, and about ten roundings lie between the weights and a gradient
// (measured: 1.3e-3). The floor is for gradients that are zero except for rounding, such as those of the keys' biases.
TEST(LossScale, ScaledGradientsAreThoseOfF32) {
  for (const char* family : kFamilies) {
    Values want = Gradients({.model = Tiny(family)});
    for (double scale : {256.0, 4096.0, 65536.0}) {
      Values got = Gradients({.model = Tiny(family), .precision = kF16, .loss_scale = {.initial = scale}});
      ExpectClose(got, want, 0x1p-8, 1e-4, fmt::format("{} {}", family, scale));
    }
  }
}

// Weights of 1e-3 make most gradients in the blocks smaller than f16's smallest number, 6e-8.
TransformerConfig Faint() {
  TransformerConfig faint = TinyLlama();
  faint.init_std = 1e-3;
  return faint;
}
constexpr LossScaleOptions kUnscaled{.initial = 1};

// With the scale these gradients are still in the range where f16 has fewer digits. Measured: 1.3e-2.
TEST(LossScale, KeepsGradientsThatF16Loses) {
  Values want = Gradients({.model = Faint()});
  ExpectClose(Gradients({.model = Faint(), .precision = kF16}), want, 1.0 / 32, 0, "scaled");
  int lost = 0;
  for (const auto& [path, values] : Gradients({.model = Faint(), .precision = kF16, .loss_scale = kUnscaled}))
    lost += Norm(values) == 0 && Norm(want.at(path)) > 0;
  EXPECT_GE(lost, 2);
}

// With the scale, parameters whose gradients f16 loses are updated as in f32. Without it they do not change.
TEST(LossScale, TrainsWhereF16AloneStandsStill) {
  auto moved = [](const Precision& precision, const LossScaleOptions& options) {
    std::vector<double> values;
    OnMesh({}, [&](Context& context, DeviceMesh& mesh) {
      Job job{.model = Faint(), .precision = precision, .loss_scale = options};
      RankRun run(job, {}, context, mesh);
      run.Step(1);
      values = run.state.At("blocks.0.norm2.weight").local.ToDoubles();
      for (double& v : values) v -= 1;
    });
    return Norm(values);
  };
  double f32 = moved({}, {});
  EXPECT_GT(f32, 0);
  EXPECT_NEAR(moved(kF16, {}), f32, f32 / 32);
  EXPECT_EQ(moved(kF16, kUnscaled), 0);
}

// ---- Skipped updates. ----

std::vector<Layout> SomeLayouts() {
  std::vector<Layout> layouts;
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 1}})
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
      for (int64_t micro : {0, 1})
        if (fsdp == Fsdp::kNone || dp > 1) layouts.push_back({dp, tp, tp > 1 && micro == 1, fsdp, micro});
  for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager})
    for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}})
      layouts.push_back({dp, tp, false, dp > 1 ? Fsdp::kFull : Fsdp::kNone, 2, executor});
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    layouts.push_back({.dp = 2, .fsdp = fsdp, .micro_batch = 1, .replicate = 2});
  return layouts;
}

class LossScaleLayouts : public testing::TestWithParam<Layout> {};

// Returns this rank's part of all that a step may write, except for the loss scale.
Values Snapshot(State& state) {
  Values values;
  for (const auto& [name, entry] : state.entries()) {
    if (name.starts_with("slot.") || name.starts_with("loss_scale.")) continue;
    TensorView view = state.View(name);
    std::vector<double> storage = entry.local.ToDoubles(), &box = values[name];
    for (int64_t i = 0; i < view.NumElements(); i++) {  // the padding of uneven shards is undefined
      int64_t place = 0, rest = i;
      for (int d = view.rank - 1; d >= 0; d--) {
        place += rest % view.dim(d).extent * view.dim(d).stride;
        rest /= view.dim(d).extent;
      }
      box.push_back(storage[size_t(place)]);
    }
  }
  return values;
}
double Scalar(State& state, const char* name) { return state.At(name).local.Item(); }

// Scales of 2^40 and 2^39 overflow f16 with any gradients. A scale of 2^8 does not.
void ExpectNoTrace(const Layout& layout, const Optimizer& optimizer) {
  constexpr double kBad = 0x1p40, kGood = 0x1p8;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    Job job{.model = TinyGpt2(),
            .precision = kF16,
            .loss_scale = {.initial = kBad, .growth_interval = 2},
            .optimizer = optimizer};
    RankRun run(job, layout, context, mesh);
    auto before = Snapshot(run.state);
    for (int step : {1, 2}) {
      StepMetrics m = run.Step(step);
      EXPECT_TRUE(std::isfinite(m.loss));
      EXPECT_FALSE(std::isfinite(m.grad_norm));
      EXPECT_EQ(m.loss_scale, step == 1 ? kBad : kBad / 2);
      EXPECT_EQ(m.skipped, step);
      EXPECT_EQ(Scalar(run.state, entry::kLossScale), *m.loss_scale / 2);
      EXPECT_EQ(Scalar(run.state, entry::kGoodSteps), 0);
      EXPECT_TRUE(Snapshot(run.state) == before);
    }
    // From here on the run equals a fresh one whose updates 1 and 2 are the steps 3 and 4.
    run.state.SetScalar(entry::kLossScale, kGood);
    job.loss_scale.initial = kGood;
    RankRun fresh(job, layout, context, mesh);
    for (int step : {3, 4}) {
      StepMetrics m = run.Step(step);
      EXPECT_EQ(m.loss_scale, kGood);
      EXPECT_EQ(m.skipped, 2);
      StepMetrics same = fresh.Step(step, step - 2);
      EXPECT_EQ(m.loss, same.loss);
      EXPECT_EQ(m.grad_norm, same.grad_norm);
      EXPECT_FALSE(Snapshot(run.state) == before);
      EXPECT_TRUE(Snapshot(run.state) == Snapshot(fresh.state));
    }
    EXPECT_EQ(Scalar(run.state, entry::kLossScale), 2 * kGood);  // after two good steps in a row
    EXPECT_EQ(Scalar(run.state, entry::kGoodSteps), 0);
    run.Step(5);
    EXPECT_EQ(Scalar(run.state, entry::kLossScale), 2 * kGood);
    EXPECT_EQ(Scalar(run.state, entry::kGoodSteps), 1);
  });
}

TEST_P(LossScaleLayouts, ASkippedStepLeavesNoTrace) { ExpectNoTrace(GetParam(), {}); }

TEST(LossScale, EveryOptimizerSkips) {
  for (const OptimizerRule* rule : OptimizerRules())
    for (ExecutorKind executor : {ExecutorKind::kCompiled, ExecutorKind::kInterpret}) {
      SCOPED_TRACE(rule->name);
      ExpectNoTrace({2, 2, false, Fsdp::kFull, 2, executor}, WithDefaults(rule->name));
    }
}

// A skipped step resets the count of good steps. The scale stays within its bounds, and its factors are those of the
// options.
TEST(LossScale, FollowsItsOptions) {
  OnMesh({}, [](Context& context, DeviceMesh& mesh) {
    Job job{.model = TinyGpt2(), .precision = kF16};
    job.loss_scale = {
        .initial = 0x1p40, .growth_factor = 8, .backoff_factor = 0.25, .growth_interval = 3, .min = 0x1p37};
    RankRun run(job, {}, context, mesh);
    std::vector<double> scales;
    int step = 1;
    auto steps = [&](int n, double set = 0) {
      if (set != 0) run.state.SetScalar(entry::kLossScale, set);
      for (int i = 0; i < n; i++) {
        run.Step(step++);
        scales.push_back(Scalar(run.state, entry::kLossScale));
      }
    };
    steps(3);
    EXPECT_EQ(scales, (std::vector<double>{0x1p38, 0x1p37, 0x1p37}));
    steps(2, 64);
    steps(1, 0x1p40);
    steps(3, 64);
    EXPECT_EQ(std::vector<double>(scales.begin() + 3, scales.end()),
              (std::vector<double>{64, 64, 0x1p38, 64, 64, 512}));
    EXPECT_EQ(Scalar(run.state, entry::kSkipped), 4);
  });
}

// A run in f16 makes the same collectives as one in bf16: every rank holds the scale and decides by the norm that is
// computed anyway.
TEST_P(LossScaleLayouts, MovesNothingOfItsOwn) {
  auto collectives = [&](DType compute) {
    Job job{.model = TinyGpt2(), .precision = {compute, DType::kF32, DType::kF32}};
    TrainingStep step(job.model, OptionsOf(job, GetParam()));
    std::vector<CommLine> lines = CommPlan(step.step());
    if (step.accumulate())
      for (CommLine& line : CommPlan(*step.accumulate())) lines.push_back(std::move(line));
    std::vector<std::string> text;
    for (const CommLine& l : lines)
      text.push_back(fmt::format("{} {} {} {} {}", Name(l.op), l.axis_name, ToString(l.shape), l.scope, l.line));
    return text;
  };
  EXPECT_EQ(collectives(DType::kF16), collectives(DType::kBF16));
}

// ---- Whole runs. ----

constexpr int kAllSteps = 20;
const int kSteps = std::max(3, kAllSteps / test::Share());

RunResult TrainF16(const Layout& layout, const char* family = "gpt2", int steps = kSteps) {
  return Train({.model = Tiny(family), .precision = kF16, .steps = steps}, layout);
}
void ExpectSameLosses(const RunResult& got, const RunResult& want, double tolerance) {
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++)
    ASSERT_LE(std::abs(got.losses[i] / want.losses[i] - 1), tolerance) << "step " << i + 1;
}

// Sums in another order may round to neighbours in f16, which are 2^-12 away. A loss is a mean over 35 tokens
// (measured: 2.7e-5).
TEST_P(LossScaleLayouts, LossesEqualOneRank) {
  static const RunResult want = TrainF16({});
  RunResult got = TrainF16(GetParam());
  ExpectSameLosses(got, want, 1e-4);
  EXPECT_EQ(got.scales, want.scales);
}

// As above, plus the roundings of weights and activations (measured: 5.1e-5).
TEST(LossScale, LossesFollowF32) {
  for (const char* family : kFamilies) {
    RunResult f32 = Train({.model = Tiny(family), .steps = kAllSteps}, {});
    EXPECT_LT(f32.losses.back(), 0.97 * f32.losses.front());
    ExpectSameLosses(TrainF16({}, family, kAllSteps), f32, 2e-4);
  }
}

// Gradients are also summed over ranks in f16, which adds two roundings.
TEST(LossScale, ReducesInF16) {
  Job job{.model = TinyGpt2(), .precision = {DType::kF16, DType::kF32, DType::kF16}, .steps = kSteps};
  RunResult want = TrainF16({});
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    ExpectSameLosses(Train(job, {.dp = 2, .tp = 2, .fsdp = fsdp, .micro_batch = 1}), want, 2e-4);
}

TEST(LossScale, ExecutorsAgree) {
  for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}}) {
    Layout layout{.dp = dp, .tp = tp, .micro_batch = 1};
    RunResult want = TrainF16(layout);
    for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager}) {
      layout.executor = executor;
      RunResult got = TrainF16(layout);
      EXPECT_EQ(got.losses, want.losses) << Describe(layout);
      EXPECT_EQ(got.norms, want.norms) << Describe(layout);
      EXPECT_EQ(got.scales, want.scales) << Describe(layout);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(All, LossScaleLayouts, testing::ValuesIn(test::ShareOf(SomeLayouts())),
                         [](const auto& p) { return Describe(p.param); });

}  // namespace
}  // namespace weft
