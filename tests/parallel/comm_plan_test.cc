// The communication plan of a 2-layer GPT: exact counts per axis, kind and phase, the plan itself as a golden file, and
// the bytes that a run moves against the bytes that the plan prints.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <map>

#include "error_of.h"
#include "golden.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

TransformerConfig SmallGpt() {
  return FindFamily("gpt2")->configure(
      {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 32, .ffn = 64, .vocab = 64, .context = 8, .dropout = 0.1});
}
Job SmallJob() { return {SmallGpt(), {}, 8, 2}; }

std::vector<CommLine> PlanOf(const Layout& layout, const Job& job = SmallJob()) {
  StepOptions o = OptionsOf(job, layout);
  TrainingStep step(SmallGpt(), o);
  std::vector<CommLine> lines;
  if (step.accumulate()) lines = CommPlan(*step.accumulate(), o.micro_steps - 1);
  for (const CommLine& l : CommPlan(step.step())) lines.push_back(l);
  return lines;
}

// Returns how many calls have this op, axis and phase and a scope that contains `within`.
int Count(const std::vector<CommLine>& lines, Op op, const std::string& axis, Phase phase,
          const std::string& within = "") {
  int n = 0;
  for (const CommLine& l : lines)
    n += l.op == op && l.axis_name == axis && l.phase == phase && l.scope.find(within) != std::string::npos ? l.times
                                                                                                            : 0;
  return n;
}

// Returns the bytes that a rank passes to its groups in a step.
int64_t Bytes(const std::vector<CommLine>& lines, const std::string& axis, Op op) {
  int64_t bytes = 0;
  for (const CommLine& l : lines) bytes += l.op == op && l.axis_name == axis ? l.times * l.bytes : 0;
  return bytes;
}

std::string Text(const std::vector<CommLine>& lines) {
  std::string text;
  for (const CommLine& l : lines)
    text += fmt::format("{} {} {} B {} {} {} x{} {}\n", Name(l.op), l.axis_name, l.bytes, Name(l.dtype),
                        ToString(l.shape), Name(l.phase), l.times, l.scope);
  return text;
}

constexpr int kLayers = 2;

TEST(CommPlan, MegatronHasTwoAllReducesALayerAndDirection) {
  auto lines = PlanOf({.dp = 2, .tp = 2});
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "blocks."), 2 * kLayers);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kBackward, "blocks."), 2 * kLayers);
  // In addition: the vocabulary-parallel embedding, the three parts of the vocabulary-parallel loss, and the head's
  // input.
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "embed"), 1);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "loss"), 3);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward), 2 * kLayers + 4);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kBackward), 2 * kLayers + 1);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kOptimizer), 1);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kOptimizer, "clip"), 1);
  for (Op op : {Op::kAllGather, Op::kReduceScatter, Op::kAllToAll})
    for (const char* axis : {"dp", "tp"})
      for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
        EXPECT_EQ(Count(lines, op, axis, phase), 0);
  // Data parallel: one call for each gradient, two for loss and count, and one for the clip norm.
  int parameters = int(Transformer(SmallGpt()).Parameters().size());
  EXPECT_EQ(Count(lines, Op::kAllReduce, "dp", Phase::kForward) + Count(lines, Op::kAllReduce, "dp", Phase::kBackward),
            0);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "dp", Phase::kOptimizer), parameters + 2 + 1);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "dp", Phase::kOptimizer, "optimizer.loss"), 2);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "dp", Phase::kOptimizer, "clip"), 1);
  test::ExpectGolden("comm_plan_dp2_tp2.txt", Text(lines));
}

TEST(CommPlan, SequenceParallelGathersAndScattersInstead) {
  auto lines = PlanOf({.dp = 2, .tp = 2, .sequence_parallel = true});
  EXPECT_EQ(Count(lines, Op::kAllGather, "tp", Phase::kForward, "blocks."), 2 * kLayers);
  EXPECT_EQ(Count(lines, Op::kReduceScatter, "tp", Phase::kForward, "blocks."), 2 * kLayers);
  EXPECT_EQ(Count(lines, Op::kAllGather, "tp", Phase::kBackward, "blocks."), 2 * kLayers);
  EXPECT_EQ(Count(lines, Op::kReduceScatter, "tp", Phase::kBackward, "blocks."), 2 * kLayers);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "blocks."), 0);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kBackward, "blocks."), 0);
  EXPECT_EQ(Count(lines, Op::kReduceScatter, "tp", Phase::kForward, "embed"), 1);
  EXPECT_EQ(Count(lines, Op::kAllGather, "tp", Phase::kForward, "head"), 1);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "loss"), 3);
  test::ExpectGolden("comm_plan_dp2_tp2_sp.txt", Text(lines));
}

TEST(CommPlan, FsdpFullGathersTwiceAndScattersOnce) {
  auto lines = PlanOf({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull});
  int parameters = int(Transformer(SmallGpt()).Parameters().size());
  // The forward pass gathers every parameter where it is used (the tied table twice). The backward pass gathers those
  // that a product needs again: per layer q, k, v, proj, up, down and the weights of two norms, and then the last
  // norm's and the head's.
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kForward), parameters + 1);
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kBackward), kLayers * 8 + 2);
  EXPECT_EQ(Count(lines, Op::kReduceScatter, "dp", Phase::kBackward) +
                Count(lines, Op::kReduceScatter, "dp", Phase::kOptimizer),
            parameters);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "dp", Phase::kOptimizer), 3);
  EXPECT_EQ(Count(lines, Op::kAllReduce, "tp", Phase::kForward, "blocks."), 2 * kLayers);
  test::ExpectGolden("comm_plan_dp2_tp2_full.txt", Text(lines));
}

TEST(CommPlan, WeightsThatAreKeptAreGatheredOnce) {
  auto lines = PlanOf({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .regather = false}),
       again = PlanOf({.dp = 2, .tp = 2, .fsdp = Fsdp::kFull});
  int parameters = int(Transformer(SmallGpt()).Parameters().size());
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kForward), parameters);  // the tied table only once
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kBackward), 0);
  for (Phase phase : {Phase::kBackward, Phase::kOptimizer})
    EXPECT_EQ(Count(lines, Op::kReduceScatter, "dp", phase), Count(again, Op::kReduceScatter, "dp", phase));
}

TEST(CommPlan, FsdpGradientsGathersCopiesAfterTheUpdate) {
  auto lines = PlanOf({.dp = 2, .tp = 2, .fsdp = Fsdp::kGradients});
  int parameters = int(Transformer(SmallGpt()).Parameters().size());
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kForward) + Count(lines, Op::kAllGather, "dp", Phase::kBackward),
            0);
  EXPECT_EQ(Count(lines, Op::kAllGather, "dp", Phase::kOptimizer), parameters);
  EXPECT_EQ(Count(lines, Op::kReduceScatter, "dp", Phase::kBackward) +
                Count(lines, Op::kReduceScatter, "dp", Phase::kOptimizer),
            parameters);
  test::ExpectGolden("comm_plan_dp2_tp2_gradients.txt", Text(lines));
}

TEST(CommPlan, FourMicroBatchesReduceGradientsOnce) {
  auto one = PlanOf({.dp = 2, .tp = 2}), four = PlanOf({.dp = 2, .tp = 2, .micro_batch = 1});
  for (Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather})
    for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer})
      EXPECT_EQ(Count(one, op, "dp", phase), Count(four, op, "dp", phase)) << Name(op);
  EXPECT_EQ(Count(four, Op::kAllReduce, "tp", Phase::kForward, "blocks."), 4 * 2 * kLayers);
}

// ---- mesh.replicate. ----

// The axis of the copies carries each gradient once per step, whatever the number of micro-batches, and one call with
// loss and count. On the other axes a step does what it does without copies.
TEST(CommPlan, CopiesMeetOnceAStep) {
  int parameters = int(Transformer(SmallGpt()).Parameters().size());
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    for (int tp : {1, 2})
      for (int64_t micro : {0, 1}) {
        Job job = SmallJob();
        job.global_batch = 16;  // four micro-batches of one sequence on each of the four ranks that share the batch
        Layout alone{.dp = 2, .tp = tp, .fsdp = fsdp, .micro_batch = micro}, copied = alone;
        copied.replicate = 2;
        StepOptions explicitly = OptionsOf(job, copied);
        explicitly.check = true;
        EXPECT_EQ(explicitly.micro_steps, micro ? 4 : 1);
        EXPECT_EQ(test::ErrorOf([&] { TrainingStep(SmallGpt(), explicitly); }), "");
        auto lines = PlanOf(copied, job);
        Job half = job;
        half.global_batch /= 2;
        auto want = PlanOf(alone, half);
        for (Op op : {Op::kAllReduce, Op::kReduceScatter, Op::kAllGather, Op::kAllToAll})
          for (Phase phase : {Phase::kForward, Phase::kBackward, Phase::kOptimizer}) {
            std::string what = fmt::format("{} {} {}", Describe(copied), Name(op), Name(phase));
            bool once = op == Op::kAllReduce && phase == Phase::kOptimizer;
            EXPECT_EQ(Count(lines, op, "replicate", phase), once ? parameters + 1 : 0) << what;
            EXPECT_EQ(Count(lines, op, "tp", phase), Count(want, op, "tp", phase)) << what;
            // Loss and count share one call here. Without copies they take two.
            EXPECT_EQ(Count(lines, op, "dp", phase), Count(want, op, "dp", phase) - (once ? 1 : 0)) << what;
          }
        EXPECT_EQ(Count(lines, Op::kAllReduce, "replicate", Phase::kOptimizer, "optimizer.loss"), 1);
        EXPECT_EQ(Count(lines, Op::kAllReduce, "replicate", Phase::kOptimizer, "clip"), 0);
        for (const CommLine& l : lines) EXPECT_TRUE(l.axis_name != "replicate" || l.times == 1) << l.scope;
        // With fsdp only the shards of the gradients are sent. That is half of what the reduce-scatters get, and two
        // f32 values.
        int64_t sent = Bytes(lines, "replicate", Op::kAllReduce), scattered = Bytes(lines, "dp", Op::kReduceScatter);
        EXPECT_TRUE(fsdp == Fsdp::kNone || sent == scattered / OptionsOf(job, copied).micro_steps / 2 + 8) << sent;
      }
}

// ---- parallel.check=explicit. ----

// The plans that Weft ships place every collective explicitly, so the check refuses nothing and changes nothing.
TEST(CommPlan, ExplicitTakesWhatIsShipped) {
  for (const char* family : kFamilies)
    for (auto [dp, tp] : {std::pair{1, 1}, {2, 1}, {1, 2}, {2, 2}, {3, 4}})
      for (bool sp : {false, true})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          for (int64_t micro : {0, 1}) {
            Job job{.model = Tiny(family)};
            Layout layout{.dp = dp, .tp = tp, .sequence_parallel = sp && tp > 1, .fsdp = fsdp, .micro_batch = micro};
            StepOptions o = OptionsOf(job, layout);
            uint64_t without = TrainingStep(job.model, o).CommHash();
            o.check = true;
            auto with = [&] {
              TrainingStep step(job.model, o);
              EXPECT_EQ(step.CommHash(), without);
              step.Eval();
            };
            EXPECT_EQ(test::ErrorOf(with), "") << family << " " << Describe(layout);
          }
}

// If no row of the plan resolves the sum of a row product, the check names it. Without the check it would be resolved
// silently.
TEST(CommPlan, ExplicitNamesWhatAPlanLeavesOut) {
  StepOptions o = OptionsOf(SmallJob(), {.dp = 2, .tp = 2});
  std::vector<ShardingPlan::Row> rows = o.model.plan.rows();
  std::erase_if(rows,
                [](const ShardingPlan::Row& row) { return row.module == "*.mlp.down" && row.point == "product"; });
  o.model.plan = ShardingPlan(rows);
  TrainingStep(SmallGpt(), o);
  o.check = true;
  std::string error = test::ErrorOf([&] { TrainingStep(SmallGpt(), o); });
  for (const char* part : {"blocks.0.mlp.down", "all_reduce on axis \"tp\" would be inserted; reshard it explicitly"})
    EXPECT_NE(error.find(part), std::string::npos) << error;
}

// ---- precision.wire. ----

// With a bf16 wire, a reduce-scatter of f32 becomes an all-to-all of half its bytes. An all-reduce becomes such an
// all-to-all and an all-gather of one chunk. Other collectives than sums of gradients stay, and on one rank all stay.
TEST(CommPlan, AWireHalvesTheBytesOfGradients) {
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
    for (int replicate : {1, 2})
      for (int dp : {1, 2}) {
        Layout layout{.dp = dp, .fsdp = fsdp, .micro_batch = 1, .replicate = replicate};
        Job job = SmallJob(), wired = job;
        wired.precision.wire = DType::kBF16;
        auto plain = PlanOf(layout, job), narrow = PlanOf(layout, wired);
        std::string what = Describe(layout);
        EXPECT_EQ(Text(plain) == Text(narrow), dp * replicate == 1) << what;
        EXPECT_EQ(TrainingStep(SmallGpt(), OptionsOf(job, layout)).CommHash() ==
                      TrainingStep(SmallGpt(), OptionsOf(wired, layout)).CommHash(),
                  dp * replicate == 1)
            << what;
        for (const char* axis : {"replicate", "dp"}) {
          int64_t scattered = Bytes(plain, axis, Op::kReduceScatter), kept = 0;
          for (const CommLine& l : narrow)
            kept += l.op == Op::kAllReduce && l.axis_name == axis ? l.times * l.bytes : 0;
          int64_t reduced = Bytes(plain, axis, Op::kAllReduce) - kept;  // the bytes of gradients
          EXPECT_LE(kept, 16) << what << ": loss, count and norm";
          EXPECT_EQ(Bytes(narrow, axis, Op::kReduceScatter), 0) << what;
          // Chunks are rounded up to 16 bytes. This model's sizes need no rounding.
          EXPECT_EQ(2 * Bytes(narrow, axis, Op::kAllToAll), scattered + reduced) << what << " " << axis;
          EXPECT_EQ(4 * (Bytes(narrow, axis, Op::kAllGather) - Bytes(plain, axis, Op::kAllGather)), reduced) << what;
        }
      }
}

// The calls and bytes that the groups count in the steps of a run equal the printed plan, on every axis and for every
// kind. The counts come from the arguments of the calls.
TEST(CommPlan, BytesAtRunTimeEqualThePlan) {
  for (const Layout& layout : {Layout{.dp = 2, .tp = 2}, Layout{.dp = 2, .tp = 2, .sequence_parallel = true},
                               Layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1},
                               Layout{.dp = 3, .tp = 1, .fsdp = Fsdp::kGradients},
                               Layout{.dp = 2, .tp = 1, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2}}) {
    std::map<std::pair<int, std::string>, CallCount> planned;
    for (const CommLine& l : PlanOf(layout)) {
      CallCount& c = planned[{l.axis, Name(l.op)}];
      c.calls += SmallJob().steps * l.times;
      c.bytes += SmallJob().steps * l.times * l.bytes;
    }
    OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
      auto counted = RunOnRank(SmallJob(), layout, context, mesh).counts;
      EXPECT_EQ(counted.size(), planned.size());
      for (const auto& [key, count] : planned)
        EXPECT_EQ(counted[key], count) << Describe(layout) << " axis " << key.first << " " << key.second;
    });
  }
}

}  // namespace
}  // namespace weft
