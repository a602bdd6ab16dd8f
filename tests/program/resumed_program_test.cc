// Random numbers of a program of one's own: no two calls or scopes draw the same, and a program that is loaded from a
// checkpoint continues with those of the program that saved it.
#include <gtest/gtest.h>

#include <filesystem>
#include <set>

#include "dtensor/dtensor_testing.h"
#include "error_of.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/nn/layers/layers.h"
#include "weft/parallel/program/compile.h"
#include "weft/parallel/step/init.h"
#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/checkpoint/saver.h"

namespace weft {
namespace {

namespace fs = std::filesystem;
using test::OnBareMesh;
using test::Rank;

struct Net : Module {
  nn::Linear up{this, "up", "bc,cf->bf", {4, 8}, {8}, {ParameterInit::kNormal, 0.2}};  // [C, F]

  Loss LossOf(Var x) {
    Var y = Dropout(up(x), 0.5);  // [B, F]
    return {SumAll(y * y), Full(double(x.dim(0)), y.dtype(), {})};
  }
};

// The losses of steps [begin, end).
std::vector<double> Train(Net& net, State& state, DeviceMesh& mesh, int begin, int end) {
  EagerScope eager(mesh);
  auto step = Compile(
      [&](Var x) {
        Loss loss = net.LossOf(x);
        return state.optimizer().Step(loss, Grad(loss, net.Parameters())).first;
      },
      state);
  std::vector<double> losses;
  for (int i = begin; i < end; i++)
    losses.push_back(step(Randn({6, 4}, mesh, {Replicate()}, {.dtype = DType::kF64, .seed = uint64_t(i)})).Item());
  return losses;
}

State Fresh(Net& net, DeviceMesh& mesh) {
  constexpr DType kType = DType::kF64;
  return Init(net, AdamW(1e-2), mesh, {.precision = {kType, kType, kType}, .seed = 4});
}

// `before` steps are run by the loading program before it loads.
void ExpectTheSameAfterALoad(int saving_ranks, int loading_ranks, int saved_after, int before) {
  std::string folder = testing::TempDir() + "resumed_program_test." + std::to_string(getpid());
  fs::remove_all(folder);
  std::vector<double> want, got;
  OnBareMesh({saving_ranks}, [&](Rank rank) {
    Net net;
    State state = Fresh(net, rank.mesh);
    Train(net, state, rank.mesh, 0, saved_after);
    {
      CheckpointSaver saver(state, rank.mesh.World(), {.dir = folder});
      ASSERT_TRUE(saver.Start({.step = 3, .seed = 4}, true).ok());
      ASSERT_TRUE(saver.Wait().ok());
    }
    std::vector<double> losses = Train(net, state, rank.mesh, saved_after, saved_after + 3);
    if (rank.mesh.rank() == 0) want = losses;
  });
  OnBareMesh({loading_ranks}, [&](Rank rank) {
    Net net;
    State state = Fresh(net, rank.mesh);
    Train(net, state, rank.mesh, 0, before);
    absl::StatusOr<Checkpoint> checkpoint = Checkpoint::Open(folder + "/step-000003");
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    ASSERT_TRUE(checkpoint->Load(state).ok());
    std::vector<double> losses = Train(net, state, rank.mesh, saved_after, saved_after + 3);
    if (rank.mesh.rank() == 0) got = losses;
  });
  EXPECT_EQ(got, want) << saving_ranks << " to " << loading_ranks << " ranks, saved after " << saved_after
                       << " steps, loaded after " << before;
  fs::remove_all(folder);
}

TEST(ResumedProgram, DrawsTheNumbersOfTheProgramThatSavedIt) {
  for (int saving_ranks : {1, 2})
    for (int loading_ranks : {1, 2})
      for (int saved_after : {0, 3})
        for (int before : {0, 2}) ExpectTheSameAfterALoad(saving_ranks, loading_ranks, saved_after, before);
}

// Each scope draws other numbers, those of as many compiled calls.
TEST(StateScope, DrawsOtherNumbersEachTime) {
  OnBareMesh({2}, [&](Rank rank) {
    State compiled_state(rank.mesh), state(rank.mesh);
    auto draw = [] { return Dropout(Full(1, DType::kF64, {32}), 0.5); };
    auto compiled = Compile([&] { return draw(); }, compiled_state);
    std::set<std::vector<double>> seen;
    for (int i = 0; i < 4; i++) {
      std::vector<double> want = compiled().FullTensor().ToDoubles(), got;
      {
        StateScope scope(state);
        got = DTensor::Of(draw()).FullTensor().ToDoubles();
      }
      { StateScope draws_nothing(state); }
      EXPECT_EQ(got, want) << i;
      seen.insert(got);
    }
    EXPECT_EQ(seen.size(), 4u);
  });
}

// Settings of Init without an effect, or without a meaning.
TEST(Init, RefusesGroupsThatMatchNothing) {
  OnBareMesh({2}, [&](Rank rank) {
    auto error = [&](ParameterGroup group, InitOptions options) {
      Net net;
      Optimizer optimizer = AdamW(1e-2);
      optimizer.groups = {std::move(group)};
      return test::ErrorOf([&] { Init(net, optimizer, rank.mesh, options); });
    };
    auto has = [](const std::string& text, const char* what) { return text.find(what) != text.npos; };
    EXPECT_EQ(error({.match = "up.*"}, {}), "");
    EXPECT_PRED2(has, error({.match = "pu.*"}, {}), "\"pu.*\" matches no parameter of the model, which has up.weight");
    EXPECT_PRED2(has, error({.match = "up.*", .options = {.momentum = 0.5}}, {}), "have no effect without a rule");
    EXPECT_PRED2(has, error({.match = "up.*"}, {.clip = -1}), "expected clip >= 0, got -1");
    EXPECT_PRED2(has, error({.match = "up.*"}, {.precision = {.compute = DType::kI32}}),
                 "expected precision.compute of floats, got i32");
  });
}

}  // namespace
}  // namespace weft
