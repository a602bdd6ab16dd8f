// Combine: products that share an operand give as one product what they give one by one.
#include "weft/core/passes/combine/combine.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "parallel/testing.h"
#include "share.h"
#include "support/streamed.h"
#include "support/training.h"
#include "weft/core/compile/plan.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/equation.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"
#include "weft/core/passes/combine/join_rows.h"
#include "weft/core/passes/fuse.h"
#include "weft/core/passes/parts.h"
#include "weft/core/passes/schedule/schedule.h"
#include "weft/core/passes/simplify.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cuda/plan/planned_rows.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

constexpr int kLayers = 2;

// Heads of 8 and an MLP of 48, so that parts are aligned and two ranks hold as much each.
Job JobOf(const char* family, DType compute, DType master) {
  TransformerConfig model = FindFamily(family)->configure(
      {.layers = kLayers, .heads = 4, .kv_heads = 2, .dim = 32, .ffn = 48, .vocab = 37, .context = 12});
  return {.model = model,
          .precision = {compute, master, master},
          .global_batch = 4,
          .steps = 3,
          .named_plan = FindFamily(family)->plan};
}

std::vector<Layout> Layouts() {
  std::vector<Layout> layouts{
      {},
      {.micro_batch = 1},
      {.recompute = {RecomputeMode::kFull}},
      {.recompute = {RecomputeMode::kSelective}},
      {.dp = 2, .fsdp = Fsdp::kGradients, .micro_batch = 1},
      {.dp = 2, .fsdp = Fsdp::kFull},
      {.dp = 3, .fsdp = Fsdp::kFull, .regather = false},
      {.dp = 2, .fsdp = Fsdp::kFull, .replicate = 2, .overlap = OverlapMode::kAlways},
      {.tp = 2},
      {.tp = 2, .sequence_parallel = true, .overlap = OverlapMode::kFill},
      {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .overlap = OverlapMode::kHalves},
      {.overlap = OverlapMode::kHalves},
      {.tp = 2, .sequence_parallel = true, .micro_batch = 2, .overlap = OverlapMode::kHalves},
      {.tp = 2, .recompute = {RecomputeMode::kFull}, .overlap = OverlapMode::kHalves},
      {.tp = 2, .sequence_parallel = true, .overlap = OverlapMode::kChunks, .chunks = 2},
      {.tp = 2, .sequence_parallel = true, .recompute = {RecomputeMode::kFull}}};
  for (Layout& layout : layouts) layout.combine = true;
  return layouts;
}

class CombineTraining : public testing::TestWithParam<const char*> {};

// A sum of products rounds once instead of once per product. f64 is within a few steps of rounding; bf16 within the
// rounding of one activation.
TEST_P(CombineTraining, GivesTheNumbersOfSingleProducts) {
  struct Types {
    DType compute, master;
    double tolerance;
  };
  size_t round = 0;
  for (Types t : {Types{DType::kF64, DType::kF64, 1e-13}, {DType::kBF16, DType::kF32, 0x1p-9}})
    for (Layout layout : Layouts())
      for (bool copies : {false, true}) {
        if (test::Skips(round) || (copies && layout.fsdp == Fsdp::kFull)) continue;
        layout.copies = copies;
        Job job = JobOf(GetParam(), t.compute, t.master);
        std::string what = fmt::format("{} {} {}", Name(t.compute), Describe(layout), copies);
        RunResult got = Train(job, layout);
        Layout single = layout;
        single.combine = false;
        RunResult want = Train(job, single);
        EXPECT_LT(testing_::LossDistance(got, want), t.tolerance) << what;
        EXPECT_NEAR(got.eval_sum, want.eval_sum, t.tolerance * want.eval_sum) << what;
        for (size_t i = 0; i < want.norms.size(); i++)
          EXPECT_NEAR(got.norms[i], want.norms[i], 8 * t.tolerance * want.norms[i]) << what;
      }
}
INSTANTIATE_TEST_SUITE_P(All, CombineTraining, testing::Values("llama", "gemma2", "gpt2", "neox"));

// Returns the kernels of a GPU, which cannot run.
KernelTable GpuKernels() {
  KernelTable table;
  cuda::AddPlannedRows(table);
  RegisterCollectives(table, DeviceKind::kCuda);
  return table;
}

int64_t Count(const Graph& graph, Op op) {
  return std::ranges::count_if(graph.nodes, [&](const auto& node) { return node->op == op; });
}

// Combines the program of a step for one rank, and returns its plan.
struct Combined {
  LocalProgram before, after;
  Plan plan;

  Combined(const Job& job, const Layout& layout) {
    before = TrainingStep(job.model, OptionsOf(job, layout)).step();
    OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
      if (context.rank() != 0) return;
      after = Combine(before, context.kernels(DeviceKind::kCpu));
      VerifyLocal(after.graph, after.mesh);
      plan = MakePlan(after, {.context = &context, .mesh = &mesh, .mesh_shape = mesh.shape(), .coords = mesh.coords()});
    });
  }
  int64_t StepsOfParts(Op op) const {
    return std::ranges::count_if(plan.steps,
                                 [&](const Step& s) { return s.node->op == op && IsPacked(s.node->attrs); });
  }
};

// Per block, five of the seven products of the forward pass become two, and so do five of the seven that give the
// gradients of activations, and five of those that give the gradients of weights.
TEST(Combine, JoinsQueriesKeysAndValuesAndTheMlp) {
  for (const Layout& layout :
       {Layout{}, {.tp = 2, .sequence_parallel = true}, {.dp = 2, .fsdp = Fsdp::kFull}, {.copies = true}}) {
    Combined c(JobOf("llama", DType::kBF16, DType::kF32), layout);
    SCOPED_TRACE(Describe(layout));
    EXPECT_EQ(Count(c.before.graph, Op::kEinsum) - Count(c.after.graph, Op::kEinsum), 9 * kLayers);
    EXPECT_EQ(c.StepsOfParts(Op::kSlice), 0) << "slices are views";
    EXPECT_EQ(c.StepsOfParts(Op::kConcat), layout.copies ? 2 * kLayers : 0)
        << "gradients, and weights that are cast, are written in place";
    int64_t gathers = Count(c.before.graph, Op::kAllGather) - Count(c.after.graph, Op::kAllGather);
    EXPECT_EQ(gathers, layout.fsdp == Fsdp::kFull ? 6 * kLayers : 0) << "weights are joined as shards";
    int64_t sums = Count(c.before.graph, Op::kReduceScatter) - Count(c.after.graph, Op::kReduceScatter);
    EXPECT_EQ(sums, layout.fsdp == Fsdp::kFull ? 3 * kLayers : 0) << "their gradients are joined before ranks add them";
  }
}

// Gradients are joined before ranks add them, by however many collectives.
TEST(Combine, JoinsWhatSeveralAxesAdd) {
  Combined c(JobOf("llama", DType::kBF16, DType::kF32), {.dp = 2, .fsdp = Fsdp::kFull, .replicate = 2});
  for (Op op : {Op::kReduceScatter, Op::kAllReduce})
    EXPECT_EQ(Count(c.before.graph, op) - Count(c.after.graph, op), 3 * kLayers) << Name(op);
}

// The gradients of two half batches are joined before they are added, so that a GPU's product still adds the other one.
TEST(Combine, AddsGradientsOfHalvesInProducts) {
  KernelTable table = GpuKernels();
  Job job = JobOf("llama", DType::kBF16, DType::kF32);
  for (const Layout& layout : {Layout{.tp = 2, .sequence_parallel = true, .overlap = OverlapMode::kHalves},
                               {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .overlap = OverlapMode::kHalves}}) {
    LocalProgram program = TrainingStep(job.model, OptionsOf(job, layout)).step();
    Graph single = Fuse(program, table).graph, joined = Fuse(Combine(program, table), table).graph;
    EXPECT_LE(Count(joined, Op::kAdd), Count(single, Op::kAdd)) << Describe(layout);
    int64_t sums = Count(single, Op::kReduceScatter) - Count(joined, Op::kReduceScatter);
    EXPECT_EQ(sums, layout.fsdp == Fsdp::kFull ? 3 * kLayers : 0) << Describe(layout);
  }
}

// On a GPU, whose kernels fuse, no part of a value is copied but weights that are not cast.
TEST(Combine, CopiesNoPartsOnAGpu) {
  KernelTable table = GpuKernels();
  for (const char* family : {"llama", "gemma2"})
    for (const Layout& layout : Layouts()) {
      Job job = JobOf(family, DType::kBF16, DType::kF32);
      LocalProgram combined = Combine(TrainingStep(job.model, OptionsOf(job, layout)).step(), table);
      bool halves = layout.overlap == OverlapMode::kHalves;
      LocalProgram program = Simplify(Fuse(halves ? JoinRows(combined, table) : combined, table));
      Parts parts = FindParts(program.graph, table);
      int64_t slices = 0, copied = 0, joins = 0;
      for (const auto& node : program.graph.nodes) {
        if (!IsPacked(node->attrs)) continue;
        slices += node->op == Op::kSlice;
        joins += node->op == Op::kConcat;
        copied += node->op == Op::kConcat && node->inputs[0].node().op == Op::kLeaf;
      }
      SCOPED_TRACE(fmt::format("{} {}", family, Describe(layout)));
      EXPECT_GT(slices, 0);
      EXPECT_EQ(int64_t(parts.slices.size()), slices);
      EXPECT_EQ(int64_t(parts.joins.size()), joins - copied);
      EXPECT_EQ(copied, layout.fsdp == Fsdp::kGradients ? 2 * kLayers : 0) << "weights in f32 are cast";
      EXPECT_EQ(int64_t(parts.over.size()), 2 * kLayers * (halves ? 2 : 1)) << "queries and keys are rotated in place";
    }
}

// The memory of a step grows by the weights that are copied, and by no more: gradients of weights are computed, sent
// and added in the block that they are of.
TEST(Combine, TakesNoMoreMemoryThanCopiedWeights) {
  for (Layout layout : Layouts()) {
    if (layout.overlap == OverlapMode::kChunks || layout.overlap == OverlapMode::kHalves) continue;  // other passes
    Job job = JobOf("llama", DType::kBF16, DType::kF32);
    job.model = FindFamily("llama")->configure(
        {.layers = 8, .heads = 4, .kv_heads = 2, .dim = 64, .ffn = 96, .vocab = 37, .context = 64});
    size_t arena[2] = {}, copied = 0;
    for (bool combine : {false, true}) {
      layout.combine = combine;
      OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
        TrainingStep step(job.model, OptionsOf(job, layout));
        Runtime runtime{.context = &context, .mesh = &mesh, .mesh_shape = mesh.shape(), .coords = mesh.coords()};
        StepPlans plans = step.Compile(runtime);
        if (context.rank() != 0) return;
        for (const Plan* plan : {&plans.step, plans.accumulate ? &*plans.accumulate : &plans.step})
          arena[combine] = std::max(arena[combine], plan->arena_bytes);
        for (const Step& s : plans.step.steps)
          if (s.node->op == Op::kConcat && IsPacked(s.node->attrs)) copied += BytesOf(s.node->outputs[0]);
      });
    }
    EXPECT_LE(arena[1], arena[0] + arena[0] / 25 + copied) << Describe(layout) << " " << copied;
  }
}

// Gathers of a block's weights are issued before the MLP of the block before it computes, as they are one by one.
TEST(Combine, LetsGathersRunAhead) {
  Job job = JobOf("llama", DType::kBF16, DType::kF32);
  LocalProgram program =
      TrainingStep(job.model, OptionsOf(job, {.dp = 2, .fsdp = Fsdp::kFull, .regather = false})).step();
  testing_::OnMesh({.dp = 2}, [&](Context& context, DeviceMesh&) {
    LocalProgram ahead = Schedule(Combine(program, context.kernels(DeviceKind::kCpu)));
    int products = 0, gathers = 0;
    for (const auto& node : ahead.graph.nodes) {
      bool first_block = node->scope && node->scope->starts_with("blocks.0.mlp");
      products += node->op == Op::kEinsum && node->phase == Phase::kForward && first_block;
      if (node->op != Op::kAllGather || !node->scope || !node->scope->starts_with("blocks.1")) continue;
      EXPECT_EQ(products, 0) << "a gather of " << *node->scope;
      gathers++;
    }
    EXPECT_EQ(gathers, 6) << "two norms, and four of products";
  });
}

// Projections with biases have other readers than those that take slices. A program without gradients would copy
// weights.
TEST(Combine, LeavesOtherProgramsAsTheyAre) {
  for (const char* family : {"gpt2", "neox", "bert"}) {
    Combined c(JobOf(family, DType::kF64, DType::kF64), {});
    EXPECT_EQ(c.after.graph.nodes, c.before.graph.nodes) << family;
  }
  Job job = JobOf("llama", DType::kF64, DType::kF64);
  TrainingStep step(job.model, OptionsOf(job, {}));
  const LocalProgram& eval = step.Eval().local();
  testing_::OnMesh({}, [&](Context& context, DeviceMesh&) {
    EXPECT_EQ(Combine(eval, context.kernels(DeviceKind::kCpu)).graph.nodes, eval.graph.nodes);
  });
}

// Where gradients of weights fill the time of collectives they stay single, as one that is joined would hide one
// collective instead of several.
TEST(Combine, LeavesGradientsThatHideCollectivesSingle) {
  Job job = JobOf("llama", DType::kF64, DType::kF64);
  for (OverlapMode overlap : {OverlapMode::kAlways, OverlapMode::kFill, OverlapMode::kHalves}) {
    Layout layout{.tp = 2, .sequence_parallel = true, .overlap = overlap};
    int64_t products[2] = {};
    for (bool combine : {false, true}) {
      layout.combine = combine;
      testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
        TrainingStep step(job.model, OptionsOf(job, layout));
        StepPlans plans = step.Compile(RuntimeOf(context, mesh, DeviceKind::kCpu));
        auto is_product = [](const Step& s) { return s.node->op == Op::kEinsum; };
        if (mesh.rank() == 0) products[combine] = std::ranges::count_if(plans.step.steps, is_product);
      });
    }
    // JoinRows also joins the four products of each half that give gradients of weights.
    int64_t joined = overlap == OverlapMode::kHalves ? 2 * 9 + 4 : overlap == OverlapMode::kFill ? 6 : 9;
    EXPECT_EQ(products[false] - products[true], joined * kLayers) << Describe(layout);
  }
}

// In a block of Llama 8B on four ranks, those of queries, keys and values take as long together as one collective over
// NVLink. Each of the two of the MLP does too.
TEST(Combine, JoinsGradientsThatHideOneCollective) {
  Job job = JobOf("llama", DType::kBF16, DType::kF32);
  job.model = FindFamily("llama")->configure(
      {.layers = kLayers, .heads = 32, .kv_heads = 8, .dim = 4096, .ffn = 14336, .vocab = 128, .context = 4096});
  LocalProgram program = TrainingStep(job.model, OptionsOf(job, {.tp = 4, .sequence_parallel = true})).step();
  for (auto [bytes, joined] : {std::pair(0.0, 6), {28.0, 8}, {std::numeric_limits<double>::infinity(), 9}}) {
    Graph combined = Combine(program, GpuKernels(), {.gradient_bytes = bytes}).graph;
    EXPECT_EQ(Count(program.graph, Op::kEinsum) - Count(combined, Op::kEinsum), joined * kLayers) << bytes;
  }
}

// Two halves give the gradients of weights in as many products as a whole batch does, but for that of the head: the
// gradient of the logits takes their place, so that it is no part of anything.
TEST(JoinRows, GivesTheProductsOfAWholeBatch) {
  KernelTable table = GpuKernels();
  Job job = JobOf("llama", DType::kBF16, DType::kF32);
  for (Layout layout : {Layout{}, {.tp = 2, .sequence_parallel = true}, {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull}}) {
    int64_t products[2] = {};
    for (bool halves : {false, true}) {
      layout.overlap = halves ? OverlapMode::kHalves : OverlapMode::kAuto;
      LocalProgram program = Combine(TrainingStep(job.model, OptionsOf(job, layout)).step(), table);
      Graph graph = halves ? JoinRows(program, table).graph : program.graph;
      products[halves] = std::ranges::count_if(graph.nodes, [](const auto& node) {
        if (node->op != Op::kEinsum) return false;
        Equation eq(node->attrs.Text("eq"));
        return eq.out.find(eq.a[0]) == std::string::npos;  // without rows
      });
    }
    EXPECT_EQ(products[true], products[false] + 1) << Describe(layout);
  }
}

// A sum is left as it is if a part could not be written where it is joined, or would be a part of two values.
TEST(JoinRows, LeavesWhatWouldBeCopied) {
  enum Kind { kBothOwn, kLeaf, kOutput, kInTwoPairs, kFirstInBoth, kTurned };
  for (Kind kind : {kBothOwn, kLeaf, kOutput, kInTwoPairs, kFirstInBoth, kTurned}) {
    auto trace = [kind] {
      Sharding one(1);
      auto product = [&](const char* name) {
        Var x = Leaf(name, DType::kF64, {8, 16}, one), w = ParameterLeaf("w", DType::kF64, {16, 16}, one);
        return kind == kLeaf ? x : Einsum("bc,cn->bn", x, w);  // [8, 16]
      };
      Var dy0 = product("dy0"), dy1 = product("dy1"), x0 = product("x0"), x1 = product("x1");  // [8, 16]
      if (kind == kFirstInBoth || kind == kTurned) x0 = kind == kTurned ? dy1 : dy0;
      if (kind == kTurned) x1 = dy0;
      Var dw = Einsum("bn,bc->cn", dy0, x0) + Einsum("bn,bc->cn", dy1, x1);  // [16, 16]
      test::Traced traced{.outputs = {{"dw", dw}}};
      if (kind == kOutput) traced.outputs.push_back({"x0", x0});
      if (kind == kInTwoPairs)
        traced.outputs.push_back({"dv", Einsum("bn,bc->cn", dy0, x1) + Einsum("bn,bc->cn", dy1, x0)});
      return traced;
    };
    LocalProgram program = Partition(test::Trace(trace), {.mesh = test::MeshOf({1})});
    Graph joined = JoinRows(program, test::KernelsOf(DeviceKind::kCpu)).graph;
    bool joins = kind == kBothOwn || kind == kInTwoPairs;  // the first of two sums
    EXPECT_EQ(Count(program.graph, Op::kEinsum) - Count(joined, Op::kEinsum), int(joins)) << kind;
    EXPECT_EQ(Count(joined, Op::kConcat), joins ? 2 : 0) << kind;
  }
}

Plan PlanOf(const Job& job, const Layout& layout) {
  testing_::Streamed device(layout, 0, /*planned=*/true);
  TrainingStep step(job.model, OptionsOf(job, layout));
  return step.Compile(device.runtime(DeviceKind::kCuda, layout.overlap)).step;
}

// The loss of each half stays fused with the last product: no logits are kept, and their gradient takes their place.
TEST(JoinRows, LeavesTheFusedLoss) {
  for (const char* family : {"llama", "gpt2"})
    for (bool tied : {false, true}) {
      Job job = JobOf(family, DType::kBF16, DType::kF32);
      job.model.vocab = 64;
      job.model.tie_embeddings = tied;
      Layout layout{.dp = 2, .fsdp = Fsdp::kFull, .regather = false, .overlap = OverlapMode::kHalves};
      int64_t fused[2] = {};
      for (bool combine : {false, true}) {
        layout.combine = combine;
        fused[combine] = std::ranges::count_if(PlanOf(job, layout).steps,
                                               [](const Step& s) { return s.node->op == Op::kLinearCrossEntropyGrad; });
      }
      EXPECT_EQ(fused[false], 2) << family << tied;
      EXPECT_EQ(fused[true], 2) << family << tied;
    }
}

// A cap lies between the loss and the last product, so they are not fused. The gradient of logits takes their place, so
// that of one half is gone when the other half has its own.
TEST(JoinRows, KeepsNoGradientOfCappedLogits) {
  Job job{.model = FindFamily("gemma2")->configure(
              {.layers = 2, .heads = 4, .kv_heads = 2, .dim = 64, .ffn = 96, .vocab = 4096, .context = 512}),
          .precision = {DType::kBF16, DType::kF32, DType::kF32},
          .global_batch = 8};
  constexpr size_t kGradient = size_t(4) * 512 * 4096 * 2 / 2;  // bytes of a half's on one of two ranks
  for (Layout layout : {Layout{.tp = 2, .sequence_parallel = true}, {.dp = 2, .fsdp = Fsdp::kFull}}) {
    layout.overlap = OverlapMode::kHalves;
    size_t arena[2] = {};
    for (bool combine : {false, true}) {
      layout.combine = combine;
      arena[combine] = PlanOf(job, layout).arena_bytes;
    }
    EXPECT_LE(arena[true], arena[false] + kGradient / 2) << Describe(layout);
  }
}

// The operands of one block wait for the other half, and those of no other block do: so recomputation saves as much. An
// eighth is for the operands of one block of 12, which are added to what all of them keep.
TEST(JoinRows, TakesLittleMemoryHoweverMuchIsRecomputed) {
  Job job{.model = FindFamily("llama")->configure(
              {.layers = 12, .heads = 4, .kv_heads = 2, .dim = 64, .ffn = 96, .vocab = 64, .context = 64}),
          .precision = {DType::kBF16, DType::kF32, DType::kF32},
          .global_batch = 8};
  for (Layout layout : {Layout{.tp = 2, .sequence_parallel = true}, {.dp = 2, .fsdp = Fsdp::kFull}})
    for (RecomputeMode mode : {RecomputeMode::kNone, RecomputeMode::kSelective, RecomputeMode::kFull}) {
      layout.overlap = OverlapMode::kHalves;
      layout.recompute = {mode};
      size_t arena[2] = {};
      for (bool combine : {false, true}) {
        layout.combine = combine;
        arena[combine] = PlanOf(job, layout).arena_bytes;
      }
      EXPECT_LE(arena[true], arena[false] + arena[false] / 8) << Describe(layout);
    }
}

// Two products of x and their gradients. With `depends` k's gradient reads that of q's weight, as none of first order
// does.
test::Traced TwoProducts(bool depends) {
  Sharding one(1);
  Var wq = ParameterLeaf("wq", DType::kF64, {16, 32}, one), wk = ParameterLeaf("wk", DType::kF64, {16, 32}, one);
  Var x = Exp(Leaf("x", DType::kF64, {8, 16}, one));                   // [8, 16]
  Var q = Einsum("bc,cn->bn", x, wq), k = Einsum("bc,cn->bn", x, wk);  // [8, 32]
  test::Traced traced{.outputs = {{"y", SwiGlu(q, k)}}};
  OriginScope backward(Phase::kBackward, nullptr);
  Var dq = Exp(q), dwq = Einsum("bn,bc->cn", dq, x);                        // [8, 32] [16, 32]
  Var dk = depends ? k * BroadcastTo(SumOfSquares(dwq), {8, 32}) : Exp(k);  // [8, 32]
  Var dwk = Einsum("bn,bc->cn", dk, x);                                     // [16, 32]
  Var dx = Einsum("bn,cn->bc", dq, wq) + Einsum("bn,cn->bc", dk, wk);       // [8, 16]
  for (auto [name, v] : {std::pair{"dwq", dwq}, {"dwk", dwk}, {"dx", dx}}) traced.outputs.push_back({name, Exp(v)});
  return traced;
}

TEST(Combine, LeavesGradientsThatDependOnEachOtherSingle) {
  for (bool depends : {false, true}) {
    LocalProgram program = Partition(test::Trace([&] { return TwoProducts(depends); }), {.mesh = test::MeshOf({1})});
    Graph combined = Combine(program, test::KernelsOf(DeviceKind::kCpu)).graph;
    EXPECT_EQ(Count(combined, Op::kEinsum), depends ? 6 : 3);
    EXPECT_TRUE(!depends || combined.nodes == program.graph.nodes);
  }
}

// Two ranks of three query heads would hold parts of other sizes.
TEST(Combine, LeavesUnevenShardsAsTheyAre) {
  Job job = JobOf("llama", DType::kF64, DType::kF64);
  LocalProgram program = TrainingStep(job.model, OptionsOf(job, {.tp = 4})).step();
  testing_::OnMesh({}, [&](Context& context, DeviceMesh&) {
    LocalProgram combined = Combine(program, context.kernels(DeviceKind::kCpu));
    EXPECT_EQ(Count(program.graph, Op::kEinsum) - Count(combined.graph, Op::kEinsum), 3 * kLayers) << "only the MLP's";
  });
}

}  // namespace
}  // namespace weft
