// Traps that show only in a whole training step: where FSDP stores parameters, padded state, and what no rank may hold.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>

#include "support/rank_run.h"
#include "weft/core/base/shard.h"
#include "weft/core/ops/ops.h"
#include "weft/core/runtime/context.h"
#include "weft/core/transforms/grad.h"
#include "weft/dist/group/mesh.h"

namespace weft {
namespace {

using namespace testing_;

const Placement R = Replicate();
Placement S(int dim, int order = -1) { return Shard(dim, order); }

// ---- The dim that FSDP shards. ----

// FSDP takes the first dim whose tp chunk dp divides, or else dim 0. If tp shards that dim too, dp is the minor axis.
TEST(FsdpPlacement, TakesTheFirstDimWhoseChunkDpDivides) {
  struct Row {
    Shape shape;
    Sharding used, stored;
  };
  const Row rows[] = {
      {{6, 4}, {R, R}, {S(0), R}},
      {{5, 4}, {R, R}, {S(1), R}},
      {{5, 3}, {R, R}, {S(0), R}},
      {{5, 3, 2}, {R, R}, {S(2), R}},
      {{16, 6}, {R, S(0)}, {S(0, 1), S(0, 0)}},
      {{10, 6}, {R, S(0)}, {S(1), S(0)}},  // dp divides 10 but not the chunk of 3
      {{5, 8}, {R, S(1)}, {S(1, 1), S(1, 0)}},
      {{5, 10}, {R, S(1)}, {S(0), S(1)}},
      {{7}, {R, R}, {S(0), R}},
      {{8}, {R, S(0)}, {S(0, 1), S(0, 0)}},
      {{10}, {R, S(0)}, {S(0, 1), S(0, 0)}},
      {{}, {R, R}, {R, R}},
  };
  const MeshShape mesh{{"dp", "tp"}, {2, 4}};
  for (const Row& row : rows)
    EXPECT_EQ(ShardingPlan().FsdpPlacement(row.used, row.shape, mesh), row.stored)
        << ToString(row.shape) << " used as " << ToString(row.used);
  const MeshShape one{{"dp", "tp"}, {1, 4}};
  EXPECT_EQ(ShardingPlan().FsdpPlacement({R, S(0)}, {8, 6}, one), (Sharding{R, S(0)}));
}

// ---- Every layout of two models whose sizes no mesh divides. ----

struct Param {
  const char* family;
  Layout layout;
};
void PrintTo(const Param& p, std::ostream* out) { *out << p.family << " " << Describe(p.layout); }
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}", p.param.family, Describe(p.param.layout));
}

std::vector<Param> All() {
  std::vector<Param> all;
  for (const char* family : {"gpt2", "llama"})
    for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {4, 1}, {3, 1}, {1, 2}, {1, 4}, {2, 2}, {2, 4}})
      for (bool sp : {false, true})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          for (int64_t micro : {0, 13})
            if (!(sp && tp == 1) && !(fsdp != Fsdp::kNone && dp == 1))
              all.push_back({family, {dp, tp, sp, fsdp, micro}});
  return all;
}

// The batch of 41, and its micro-steps of 13 rows per rank, differ from every other extent, so the extent of a dim
// tells what the dim is.
Job JobOf(const Param& p) { return {std::string(p.family) == "gpt2" ? TinyGpt2() : TinyLlama(), {}, 41}; }

class StepTraps : public testing::TestWithParam<Param> {
 protected:
  StepTraps() : job_(JobOf(GetParam())), step_(job_.model, OptionsOf(job_, GetParam().layout)) {}
  std::vector<const LocalProgram*> Programs() const {
    std::vector<const LocalProgram*> all{&step_.step()};
    if (step_.accumulate()) all.push_back(step_.accumulate());
    return all;
  }

  Job job_;
  TrainingStep step_;
};

// Stored state includes its padding, with equal sizes on all ranks, so no step pads anything.
TEST_P(StepTraps, StateIsStoredPaddedAndNoStepPads) {
  for (const LocalProgram* program : Programs())
    for (const auto& node : program->graph.nodes) EXPECT_NE(node->op, Op::kPad) << Print(program->graph);
  const MeshShape& mesh = step_.options().model.mesh;
  int64_t padded = 0;
  for (int rank = 0; rank < mesh.num_ranks(); rank++) {
    State state(mesh, mesh.CoordsOf(rank));
    step_.AddEntries(state);
    for (const auto& [name, entry] : state.entries()) {
      EXPECT_EQ(entry.local.shape(), ChunkShape(entry.global, entry.sharding, mesh)) << name << " on rank " << rank;
      padded += state.View(name).NumElements() < entry.local.num_elements();
    }
  }
  bool uneven =
      step_.options().rows % GetParam().layout.dp || GetParam().layout.tp > 1;  // tp divides no vocabulary here
  EXPECT_TRUE(padded > 0 || !uneven) << "nothing is padded, so this shows nothing";
}

// A dim that an axis shards is never longer than its chunk, not even after a gather. dp shards the batch; tp shards the
// vocabulary, the hidden width and the query heads. The norm joins a scalar of each parameter, as many as there are.
TEST_P(StepTraps, NoLocalValueIsLargerThanItsChunks) {
  const Layout& l = GetParam().layout;
  auto chunk = [](int64_t n, int k) { return (n + k - 1) / k; };
  const TransformerConfig& c = job_.model;
  const std::map<int64_t, int64_t> longest{{step_.options().rows, chunk(step_.options().rows, l.dp)},
                                           {c.vocab, chunk(c.vocab, l.tp)},
                                           {c.ffn, chunk(c.ffn, l.tp)},
                                           {c.heads, chunk(c.heads, l.tp)}};
  ASSERT_EQ(longest.size(), 4u) << "two extents are equal, so a dim does not name what it is";
  for (const LocalProgram* program : Programs())
    for (const auto& node : program->graph.nodes) {
      if (node->op == Op::kConcat && node->inputs[0].shape() == Shape{1}) continue;
      for (const ValueInfo& info : node->outputs)
        for (size_t d = 0; d < info.global.size(); d++)
          if (auto it = longest.find(info.global[d]); it != longest.end()) {
            EXPECT_LE(info.shape[d], it->second)
                << Name(node->op) << " " << ToString(info.global) << " " << ToString(node->loc);
          }
    }
}

INSTANTIATE_TEST_SUITE_P(All, StepTraps, testing::ValuesIn(All()), ParamName);

// ---- Norms compute in the accumulate type with their parameters. ----

bool IsNorm(const std::string& path) { return path.find("norm") != std::string::npos; }

// Returns the loss of the first step if the norms' weights are `weight`.
double LossWithNormWeights(const Job& job, const Layout& layout, double weight) {
  double loss = 0;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    RankRun run(job, layout, context, mesh);
    for (const Parameter* p : run.training.model().Parameters())
      if (IsNorm(p->path()) && p->path().ends_with(".weight")) {
        Tensor& local = run.state.At(p->path()).local;
        double around = p->init().kind == ParameterInit::kZeros ? 1 : 0;  // what the norm adds to the stored value
        std::fill_n(local.as<float>(), local.num_elements(), float(weight - around));
      }
    run.training.sharded().RefreshCopies(run.state, run.runtime);
    double mine = run.Step(1).loss;
    if (context.rank() == 0) loss = mine;
  });
  return loss;
}

// A weight starts at 1. Its first updates are too small for bf16 and f16 to represent next to 1.
TEST(NormParameters, CountBeforeTheComputeTypeTellsThemFrom1) {
  for (auto [compute, near] : {std::pair{DType::kBF16, 1 + 0x1p-10}, {DType::kF16, 1 + 0x1p-13}})
    for (const char* family : kFamilies)
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull}) {
        Job job{.model = Tiny(family), .precision = {compute, DType::kF32, DType::kF32}};
        Layout layout{.dp = fsdp == Fsdp::kNone ? 1 : 2, .fsdp = fsdp};
        double at_1 = LossWithNormWeights(job, layout, 1);
        EXPECT_EQ(LossWithNormWeights(job, layout, 1), at_1);
        EXPECT_NE(LossWithNormWeights(job, layout, near), at_1)
            << family << " " << Name(compute) << " " << Describe(layout);
      }
}

// With every fsdp setting the steps use equal numbers, whether a norm's weight or its copy is gathered. Measured: the
// same bits. Another order in the gradients' norm may cost a rounding of bf16.
TEST(NormParameters, TrainTheSameWithEveryFsdp) {
  for (DType compute : {DType::kBF16, DType::kF16})
    for (const char* family : kFamilies) {
      Job job{.model = Tiny(family), .precision = {compute, DType::kF32, DType::kF32}, .steps = 4};
      RunResult want = Train(job, {.dp = 2});
      for (Fsdp fsdp : {Fsdp::kGradients, Fsdp::kFull}) {
        RunResult got = Train(job, {.dp = 2, .fsdp = fsdp});
        ASSERT_EQ(got.losses.size(), want.losses.size());
        for (size_t i = 0; i < want.losses.size(); i++)
          EXPECT_NEAR(got.losses[i], want.losses[i], 0x1p-8 * want.losses[i]) << family << " " << Name(compute);
      }
    }
}

// Copies and gradients of norms are f32 even if those of products are bf16.
TEST(NormParameters, CopiesAndGradientsAreOfTheAccumulateType) {
  Layout layout{.dp = 2, .fsdp = Fsdp::kGradients};
  Job job{.model = TinyGpt2(), .precision = {DType::kBF16, DType::kF32, DType::kF32}};
  TrainingStep step(job.model, OptionsOf(job, layout));
  for (const EntryInfo& e : step.Entries())
    if (e.kind == EntryKind::kCopy) {
      EXPECT_EQ(e.dtype, IsNorm(e.name) ? DType::kF32 : DType::kBF16) << e.name;
    }
  TraceBuilder trace({step.options().seed, RandomPhase::kTrain});
  BuilderScope builder(trace);
  ModelScope scope(step.options().model);
  Var x = Leaf("x", DType::kBF16, {3, job.model.dim});
  for (const Parameter* p : step.model().Parameters())
    if (IsNorm(p->path()) && p->init().kind == ParameterInit::kOnes) {
      Var gradient = Grad(SumAll(RmsNorm(x, p->Use(), 1e-5)), std::vector{p->Source()})[0];
      EXPECT_EQ(gradient.dtype(), DType::kF32) << p->path();
    }
}

}  // namespace
}  // namespace weft
