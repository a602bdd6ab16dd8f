// A model trained by a loop of one's own, Compile over Init's State, is trained as weft train trains it: losses and
// norms have the same bits, on every mesh, under each executor.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <functional>
#include <memory>

#include "error_of.h"
#include "parallel/testing.h"
#include "support/rank_run.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"

namespace weft {
namespace {

using namespace testing_;

// The tokens and targets that FillSlots gives a run.
std::pair<DTensor, DTensor> Batch(RankRun& run, int step) {
  run.Fill(step, 0);
  auto of = [&](const char* slot) { return run.state.At(slot).local.Clone(); };
  Sharding batch = BatchPlacement(run.options.model.mesh);
  auto& mesh = *static_cast<DeviceMesh*>(run.runtime.mesh);
  Shape global{run.options.rows, run.options.tokens};
  const auto& session = EagerScope::Need(mesh, {"Batch", Loc::current()});
  return {FromStorage(session, of(entry::kTokens), global, batch, {}, {"Batch", Loc::current()}),
          FromStorage(session, of(entry::kTargets), global, batch, {}, {"Batch", Loc::current()})};
}

void ExpectSameTraining(const Job& job, const Layout& layout) {
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    RankRun want(job, layout, context, mesh);
    std::unique_ptr<Model> model = MakeModel(job.model);
    const StepOptions& o = want.options;
    State state = Init(*model, o.optimizer, mesh,
                       {.plan = o.model.plan,
                        .precision = o.model.precision,
                        .fsdp = o.model.fsdp,
                        .regather = o.model.regather,
                        .copies = o.model.copies,
                        .clip = o.clip,
                        .seed = o.seed});
    EagerScope eager(mesh);
    auto step = Compile(
        [&](Var tokens, Var targets) {
          Loss loss = model->LossOf(tokens, targets);
          return state.optimizer().Step(loss, Grad(loss, model->Parameters()));
        },
        state, {.executor = layout.executor, .name = "train"});
    for (int i = 1; i <= 4; i++) {
      auto [tokens, targets] = Batch(want, i);
      auto [loss, norm] = step(tokens, targets);
      StepMetrics metrics = want.Step(i);
      EXPECT_EQ(loss.Item(), metrics.loss) << Describe(layout) << ", step " << i;
      EXPECT_EQ(norm.Item(), metrics.grad_norm) << Describe(layout) << ", step " << i;
    }
    EXPECT_EQ(step.num_traces(), 1u);
    for (const Parameter* p : model->Parameters()) {
      const State::Entry& e = want.state.At(p->path());
      DTensor trained = FromStorage(state.session(), e.local.Clone(), e.global, e.sharding, {}, {"", Loc::current()});
      EXPECT_EQ(test::LargestDifference(state.Value(p->path()).FullTensor(), trained.FullTensor()), 0)
          << Describe(layout) << " " << p->path();
    }
  });
}

TEST(LibraryTraining, HasTheBitsOfWeftTrain) {
  for (const char* family : kFamilies)
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
      for (auto [dp, tp] : {std::pair(1, 1), {2, 1}, {1, 3}, {2, 2}})
        ExpectSameTraining({.model = Tiny(family), .precision = {DType::kF32, DType::kF32, DType::kF32}},
                           {.dp = dp, .tp = tp, .fsdp = fsdp});
  for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager})
    ExpectSameTraining({.model = TinyGpt2(), .precision = {DType::kBF16, DType::kF32, DType::kF32}},
                       {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .executor = executor});
}

TEST(LibraryTraining, KeepsCopiesOfWeights) {
  for (const char* family : kFamilies)
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
      for (bool regather : {true, false})
        ExpectSameTraining({.model = Tiny(family), .precision = {DType::kBF16, DType::kF32, DType::kF32}},
                           {.dp = 2, .fsdp = fsdp, .regather = regather, .copies = true});
}

TEST(LibraryTraining, RefreshesCopiesOfParametersFromElsewhere) {
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    OnMesh({.dp = 2}, [&](Context&, DeviceMesh& mesh) {
      TransformerConfig config = TinyGpt2();
      config.dropout = 0;  // its masks depend on the seed
      std::unique_ptr<Model> model = MakeModel(config);
      auto init = [&](uint64_t seed) {
        Precision precision{DType::kBF16, DType::kF32, DType::kF32};
        return Init(*model, AdamW(1e-2), mesh, {.precision = precision, .fsdp = fsdp, .copies = true, .seed = seed});
      };
      State one = init(1), other = init(2);
      auto losses = [&](State& state) {
        auto step = Compile(
            [&](Var x) {
              Loss loss = model->LossOf(x, x);
              return state.optimizer().Step(loss, Grad(loss, model->Parameters())).first;
            },
            state);
        Tensor tokens = Tensor::Zeros(DType::kI32, {2, 7});
        double first = step(tokens).Item();
        return std::pair(first, step(tokens).Item());
      };
      for (const Parameter* p : model->Parameters()) {
        Tensor &from = one.At(p->path()).local, &to = other.At(p->path()).local;
        std::memcpy(to.data(), from.data(), to.bytes());
      }
      other.optimizer().RefreshCopies(other);
      EXPECT_EQ(losses(other), losses(one));
    });
}

TEST(LibraryTraining, SetsItsLearningRate) {
  OnMesh({}, [&](Context&, DeviceMesh& mesh) {
    std::unique_ptr<Model> model = MakeModel(TinyGpt2());
    State state = Init(*model, AdamW(0.0), mesh);
    Tensor tokens = Tensor::Zeros(DType::kI32, {2, 7});
    auto step = Compile(
        [&](Var x) {
          Loss loss = model->LossOf(x, x);
          return state.optimizer().Step(loss, Grad(loss, model->Parameters())).first;
        },
        state);
    step(tokens);
    const State::Entry& weight = state.At(model->Parameters()[0]->path());
    Tensor before = weight.local.Clone();
    step(tokens);
    EXPECT_EQ(std::memcmp(before.data(), weight.local.data(), before.bytes()), 0);
    OptimizerStep::SetLearningRate(state, 0.1);
    step(tokens);
    EXPECT_NE(std::memcmp(before.data(), weight.local.data(), before.bytes()), 0);
  });
}

TEST(LibraryTraining, RefusesF16AndUnknownNames) {
  OnMesh({}, [&](Context&, DeviceMesh& mesh) {
    std::unique_ptr<Model> model = MakeModel(TinyGpt2());
    auto text_of = [](auto fn) {
      try {
        fn();
      } catch (const Error& e) {
        return std::string(e.what());
      }
      return std::string("no error");
    };
    EXPECT_NE(text_of([&] { Init(*model, AdamW(1e-3), mesh, {.precision = {DType::kF16}}); }).find("got f16"),
              std::string::npos);
    std::string names;
    for (const OptimizerRule* rule : OptimizerRules()) names += (names.empty() ? "" : ", ") + std::string(rule->name);
    std::string made = text_of([&] { MakeOptimizer("adam", 1e-3); });
    std::string named = text_of([&] { OptimizerNamed("adam"); });
    EXPECT_TRUE(made.starts_with("MakeOptimizer at library_training_test.cc:")) << made;
    EXPECT_TRUE(named.starts_with("OptimizerNamed at library_training_test.cc:")) << named;
    for (const std::string& error : {made, named})
      EXPECT_TRUE(error.ends_with(": expected one of " + names + ", got \"adam\"; did you mean \"adamw\"?")) << error;
    for (const OptimizerRule* rule : OptimizerRules()) EXPECT_EQ(&OptimizerNamed(rule->name), rule);
  });
}

TEST(LibraryTraining, RefusesNumbersOutsideTheirBounds) {
  auto expect = [](const std::function<void()>& fn, const std::string& call, const std::string& text) {
    std::string error = test::ErrorOf(fn);
    EXPECT_TRUE(error.starts_with(call + " at library_training_test.cc:")) << error;
    EXPECT_TRUE(error.ends_with(text)) << error;
  };
  expect([] { AdamW(-1); }, "AdamW", ": expected lr >= 0, got -1");
  expect([] { AdamW(std::nan("")); }, "AdamW", ": expected lr >= 0, got nan");
  expect([] { AdamW(1e-3, {.beta1 = 1}); }, "AdamW", ": expected beta1 >= 0 and < 1, got 1");
  expect([] { AdamW(1e-3, {.beta2 = -0.1}); }, "AdamW", ": expected beta2 >= 0 and < 1, got -0.1");
  expect([] { AdamW(1e-3, {.eps = 0}); }, "AdamW", ": expected eps > 0, got 0");
  expect([] { AdamW(1e-3, {.weight_decay = -1}); }, "AdamW", ": expected weight_decay >= 0, got -1");
  for (const OptimizerRule* rule : OptimizerRules())
    expect([&] { MakeOptimizer(rule->name, -1); }, "MakeOptimizer", ": expected lr >= 0, got -1");
  OnMesh({}, [&](Context&, DeviceMesh& mesh) {
    std::unique_ptr<Model> model = MakeModel(TinyGpt2());
    Optimizer sgd = MakeOptimizer("sgd", 0.1), groups = sgd;
    sgd.options.momentum = 1;
    expect([&] { Init(*model, sgd, mesh); }, "Init", ": expected momentum >= 0 and < 1, got 1");
    groups.groups = {{.match = "*.bias", .lr_scale = -2}};
    expect([&] { Init(*model, groups, mesh); }, "Init", ": the group of \"*.bias\": expected lr_scale >= 0, got -2");
    State state = Init(*model, AdamW(0), mesh);
    expect([&] { OptimizerStep::SetLearningRate(state, -1); }, "SetLearningRate", ": expected a number >= 0, got -1");
  });
}

}  // namespace
}  // namespace weft
