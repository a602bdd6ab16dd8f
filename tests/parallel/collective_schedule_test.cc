// The order of a step's collectives on a device that overlaps them with kernels: weights are gathered one block early,
// gradients are reduced one block at a time, in parts where no other block computes, and other collectives stay where
// they were. double_training_test shows that values keep their bits.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <map>
#include <memory>
#include <set>

#include "share.h"
#include "support/streamed.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/pipeline.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/verify.h"
#include "weft/core/passes/fuse.h"
#include "weft/core/passes/schedule/schedule.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

// The gathers of both passes read a cast of each weight.
constexpr Precision kMixed{DType::kBF16, DType::kF32, DType::kF32};

std::string BlockOf(const std::string& scope) {
  size_t dot = scope.find('.');
  return scope.starts_with("blocks.") ? scope.substr(0, scope.find('.', dot + 1)) : scope.substr(0, dot);
}

// Consecutive collectives of one op, axis and block.
struct Bucket {
  Op op;
  std::string axis, block;
  Phase phase;
  int calls = 0;
};
std::vector<Bucket> BucketsOf(const LocalProgram& program) {
  std::vector<Bucket> buckets;
  const Node* before = nullptr;
  for (const auto& node : program.graph.nodes) {
    if (IsCollective(node->op)) {
      const std::string axis = program.mesh.names[size_t(node->attrs.Int("axis"))],
                        block = BlockOf(node->scope ? *node->scope : "");
      bool joins = before && IsCollective(before->op) && buckets.back().op == node->op && buckets.back().axis == axis &&
                   buckets.back().block == block;
      if (!joins) buckets.push_back({node->op, axis, block, node->phase});
      buckets.back().calls++;
    }
    before = node.get();
  }
  return buckets;
}

TEST(Schedule, KeepsNodesAndTheirOrderByDataOnEveryLayout) {
  int moved = 0;
  for (const char* family : kFamilies)
    for (const Layout& layout : StreamLayouts()) {
      Job job{.model = Tiny(family)};
      TrainingStep step(job.model, OptionsOf(job, layout));
      for (const LocalProgram* program : {&step.step(), step.accumulate()}) {
        if (!program) continue;
        LocalProgram now = Schedule(*program);
        VerifyLocal(now.graph, now.mesh);
        moved += now.graph.nodes != program->graph.nodes;
        auto sorted = [](std::vector<std::shared_ptr<Node>> nodes) {
          std::sort(nodes.begin(), nodes.end());
          return nodes;
        };
        EXPECT_EQ(sorted(now.graph.nodes), sorted(program->graph.nodes));
      }
    }
  EXPECT_GT(moved, 10);
}

// With full sharding, weights have one bucket per block and pass, and gradients one per block. Only those for which no
// other block computes are split: the weights of the first block, and the gradients of the last one that has any.
TEST(Schedule, MakesOneBucketABlock) {
  Layout layout{.dp = 4, .fsdp = Fsdp::kFull};
  for (const char* family : {"gpt2", "llama"}) {
    Job job{.model = Tiny(family), .precision = kMixed};
    TrainingStep step(job.model, OptionsOf(job, layout));
    LocalProgram now = Schedule(step.step());
    std::map<std::tuple<Op, std::string, Phase>, int> buckets;
    for (const Bucket& bucket : BucketsOf(now))
      if (bucket.block.starts_with("blocks.")) {
        buckets[{bucket.op, bucket.block, bucket.op == Op::kAllGather ? bucket.phase : Phase::kBackward}]++;
        EXPECT_TRUE(bucket.calls > 4 || bucket.block == "blocks.0") << family << " " << bucket.block;
      }
    for (int64_t i = 0; i < job.model.layers; i++) {
      std::string block = fmt::format("blocks.{}", i);
      EXPECT_EQ((buckets[{Op::kAllGather, block, Phase::kForward}]), i == 0 ? 2 : 1) << family << " " << block;
      EXPECT_EQ((buckets[{Op::kAllGather, block, Phase::kBackward}]), 1) << family << " " << block;
      int sums = buckets[{Op::kReduceScatter, block, Phase::kBackward}];
      EXPECT_TRUE(i == 0 ? sums > 2 : sums == 1) << family << " " << block << ": " << sums;
    }
  }
}

int PositionOf(const LocalProgram& program, const std::function<bool(const Node&)>& is) {
  for (size_t i = 0; i < program.graph.nodes.size(); i++)
    if (is(*program.graph.nodes[i])) return int(i);
  return -1;
}
bool IsIn(const Node& node, const char* block) { return node.scope && node.scope->starts_with(block); }

// The gather of block 1's weights starts before the MLP of block 0 computes. The reduction of block 1's gradients
// starts before the gradients of block 0 are computed.
TEST(Schedule, WeightsComeABlockEarlyAndGradientsLeaveAtOnce) {
  Layout layout{.dp = 4, .fsdp = Fsdp::kFull};
  Job job{.model = Tiny("llama"), .precision = kMixed};
  TrainingStep step(job.model, OptionsOf(job, layout));
  LocalProgram now = Schedule(step.step());
  int gather = PositionOf(now, [](const Node& n) { return n.op == Op::kAllGather && IsIn(n, "blocks.1."); });
  int compute = PositionOf(now, [](const Node& n) { return n.op == Op::kEinsum && IsIn(n, "blocks.0.mlp"); });
  EXPECT_LT(gather, compute);
  int again = PositionOf(
      now, [](const Node& n) { return n.op == Op::kAllGather && n.phase == Phase::kBackward && IsIn(n, "blocks.0."); });
  int backward = PositionOf(
      now, [](const Node& n) { return n.op == Op::kEinsum && n.phase == Phase::kBackward && IsIn(n, "blocks.1."); });
  EXPECT_GT(again, 0);
  EXPECT_LT(again, backward);
  int scatter = PositionOf(now, [](const Node& n) { return n.op == Op::kReduceScatter && IsIn(n, "blocks.1."); });
  int earlier = PositionOf(
      now, [](const Node& n) { return n.op == Op::kEinsum && n.phase == Phase::kBackward && IsIn(n, "blocks.0."); });
  EXPECT_GT(scatter, 0);
  EXPECT_LT(scatter, earlier);
}

// Returns the positions of the nodes for which `is` holds.
std::vector<int> PositionsOf(const LocalProgram& program, const std::function<bool(const Node&)>& is) {
  std::vector<int> positions;
  for (int i = 0; i < int(program.graph.nodes.size()); i++)
    if (is(*program.graph.nodes[size_t(i)])) positions.push_back(i);
  return positions;
}
bool IsProductOf(const Node& node, Phase phase, const char* block) {
  return node.op == Op::kEinsum && node.phase == phase && IsIn(node, block);
}

// The first block computes while most of its weights are gathered, and while most of its gradients are reduced.
TEST(Schedule, SplitsWhatNoOtherBlockHides) {
  Job job{.model = Tiny("llama"), .precision = kMixed};
  TrainingStep step(job.model, OptionsOf(job, {.dp = 4, .fsdp = Fsdp::kFull}));
  LocalProgram now = Schedule(step.step());
  std::vector<int> gathers = PositionsOf(
      now, [](const Node& n) { return n.op == Op::kAllGather && n.phase == Phase::kForward && IsIn(n, "blocks.0."); });
  int norm = PositionOf(now, [](const Node& n) { return n.op == Op::kRmsNorm && IsIn(n, "blocks.0.norm1"); });
  int embedding = PositionOf(now, [](const Node& n) { return n.op == Op::kEmbedding; });
  EXPECT_LT(gathers.front(), embedding);
  EXPECT_GT(gathers.back(), embedding) << "the rest comes after the embedding";
  EXPECT_LT(gathers.back(), norm);
  std::vector<int> sums =
      PositionsOf(now, [](const Node& n) { return n.op == Op::kReduceScatter && IsIn(n, "blocks.0."); });
  int product = PositionsOf(now, [](const Node& n) { return IsProductOf(n, Phase::kBackward, "blocks.0."); }).back();
  EXPECT_GE(std::ranges::count_if(sums, [&](int at) { return at < product; }), 3) << "those of the MLP";
}

// The norm before the head takes no time, so its weights' gather is no reason to gather the head's late.
TEST(Schedule, GathersTheHeadWhileTheLastBlockComputes) {
  Job job{.model = Tiny("llama"), .precision = kMixed};
  job.model.tie_embeddings = false;
  job.model.vocab = 401;  // so that the norm is small compared with the head
  TrainingStep step(job.model, OptionsOf(job, {.dp = 4, .fsdp = Fsdp::kFull}));
  LocalProgram now = Schedule(step.step());
  int head = PositionOf(now, [](const Node& n) { return n.op == Op::kAllGather && IsIn(n, "head"); });
  std::string last = fmt::format("blocks.{}.", job.model.layers - 1);
  int block = PositionsOf(now, [&](const Node& n) { return IsProductOf(n, Phase::kForward, last.c_str()); }).front();
  EXPECT_GT(head, 0);
  EXPECT_LT(head, block);
}

void CheckEarlyGradients(const Layout& layout) {
  Job job{.model = Tiny("llama"), .precision = kMixed};
  job.model.tie_embeddings = false;
  TrainingStep step(job.model, OptionsOf(job, layout));
  LocalProgram now = Schedule(step.step());
  auto reduced = [&](const char* module) {
    return PositionOf(now, [&](const Node& n) {
      return n.op == Op::kAllReduce && n.scope && *n.scope == fmt::format("optimizer.{}.weight", module);
    });
  };
  std::string last = fmt::format("blocks.{}.", job.model.layers - 1);
  int backward =
      PositionsOf(now, [&](const Node& n) { return IsProductOf(n, Phase::kBackward, last.c_str()); }).front();
  EXPECT_GT(reduced("head"), 0);
  EXPECT_LT(reduced("head"), backward);
  std::vector<int> sums = PositionsOf(now, [](const Node& n) { return n.op == Op::kSumOfSquares; });
  EXPECT_GT(sums.front(), reduced("embed"));
  auto is_of_embed = [&](int at) {
    return now.graph.nodes[size_t(at)]->inputs[0].node_ptr() == now.graph.nodes[size_t(reduced("embed"))];
  };
  EXPECT_TRUE(is_of_embed(sums.back())) << "all others come first";
}

// Whether no reduce_scatter comes after batch i.
bool IsLast(const Plan& plan, const PlannedCalls& calls, size_t i) {
  for (size_t j = i + 1; j < calls.batches().size(); j++)
    if (plan.steps[calls.batches()[j].first].node->op == Op::kReduceScatter) return false;
  return true;
}

// Without sharding the optimizer reduces gradients. Each is reduced with those of its block, and the sums of their
// squares are computed before the last of them is there.
TEST(Schedule, ReducesAndSumsGradientsOfTheOptimizerEarly) {
  for (int64_t micro_batch : {0, 1}) CheckEarlyGradients({.dp = 4, .micro_batch = micro_batch});
}

// With replicas too, a block's gradients are reduced over them before the block before it has computed its own.
TEST(Schedule, ReducesOverReplicasABlockAtATime) {
  for (int64_t micro_batch : {0, 1}) {
    Job job{.model = Tiny("llama"), .precision = kMixed};
    Layout layout{.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = micro_batch, .replicate = 2};
    TrainingStep step(job.model, OptionsOf(job, layout));
    LocalProgram now = Schedule(step.step());
    std::vector<int> sums = PositionsOf(now, [](const Node& n) {
      return n.op == Op::kAllReduce && n.scope && n.scope->find("blocks.1.") != n.scope->npos;
    });
    int product = PositionsOf(now, [](const Node& n) { return IsProductOf(n, Phase::kBackward, "blocks.0."); }).back();
    EXPECT_GT(sums.size(), 4u) << micro_batch;
    for (int sum : sums) EXPECT_LT(sum, product) << micro_batch;
  }
}

// A kernel that adds a gradient to its accumulator waits for no reduction that has just begun. So reductions are hidden
// in each micro-step.
TEST(Schedule, AccumulatorsDoNotWaitForLatestReductions) {
  Job job{.model = Tiny("llama"), .precision = kMixed, .global_batch = 8};
  job.model.layers = 4;
  for (const Layout& layout : {Layout{.dp = 4, .fsdp = Fsdp::kFull, .micro_batch = 1},
                               {.dp = 4, .fsdp = Fsdp::kGradients, .micro_batch = 1},
                               {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2}}) {
    TrainingStep step(job.model, OptionsOf(job, layout));
    Streamed device(layout, 0, /*planned=*/true);
    Runtime runtime = device.runtime(DeviceKind::kCuda, OverlapMode::kAlways);
    StepPlans plans = step.Compile(runtime);
    for (const Plan* plan : {&plans.step, &*plans.accumulate}) {
      PretendedAddresses addresses(*plan);
      PlannedCalls calls(*plan, runtime, [&](const Place& place) { return addresses.At(place); });
      OverlapPlan overlap = calls.Overlap();
      std::vector<size_t> reductions;  // in order
      int adds = 0;
      for (size_t i = 0; i < overlap.entries.size(); i++) {
        const Node& node = *plan->steps[calls.batches()[i].first].node;
        if (node.op == Op::kReduceScatter) reductions.push_back(i);
        if (node.op != Op::kAdd || node.phase != Phase::kBackward) continue;
        adds++;
        for (size_t w : overlap.entries[i].waits_for)
          EXPECT_TRUE(w < reductions.back() || IsLast(*plan, calls, i)) << Describe(layout) << " " << i;
      }
      EXPECT_GT(adds, 3) << Describe(layout);
    }
  }
}

// A step's accumulators get gradients that were reduced together while products still run.
TEST(Schedule, AddsJoinedGradientsWhileProductsRun) {
  Job job{.model = Tiny("llama"), .precision = kMixed, .global_batch = 8};
  job.model = FindFamily("llama")->configure(
      {.layers = 6, .heads = 4, .kv_heads = 4, .dim = 32, .ffn = 64, .vocab = 64, .context = 16});
  for (bool combine : {false, true})
    for (const Layout& layout :
         {Layout{.dp = 4, .fsdp = Fsdp::kFull, .micro_batch = 1, .combine = combine},
          {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2, .combine = combine}}) {
      TrainingStep step(job.model, OptionsOf(job, layout));
      Streamed device(layout, 0, /*planned=*/true);
      StepPlans plans = step.Compile(device.runtime(DeviceKind::kCuda, OverlapMode::kAlways));
      for (const Plan* plan : {&plans.step, &*plans.accumulate}) {
        int adds = 0, early = 0;
        for (const Step& s : plan->steps) {
          bool product = (s.node->op == Op::kEinsum || s.node->op == Op::kLinear) && s.node->phase == Phase::kBackward;
          if (product) early = adds;
          adds += s.node->op == Op::kAdd && s.node->phase == Phase::kBackward;
        }
        EXPECT_GT(adds, 6 * 7) << Describe(layout) << " combine " << combine;
        EXPECT_GT(early, 4 * 7) << Describe(layout) << " combine " << combine;
      }
    }
}

// Without sharding too, gradients that a product adds to its accumulator are reduced at once in the last micro-step.
TEST(Schedule, ReducesAccumulatedGradientsAtOnce) {
  Job job{.model = Tiny("llama"), .precision = kMixed, .global_batch = 8};
  job.model.layers = 4;
  Layout layout{.dp = 4, .micro_batch = 1};
  TrainingStep step(job.model, OptionsOf(job, layout));
  Streamed device(layout, 0, /*planned=*/true);
  Plan plan = step.Compile(device.runtime(DeviceKind::kCuda, OverlapMode::kAlways)).step;
  int reductions = 0, early = 0, products = 0;
  for (const Step& s : plan.steps) {
    bool product = (s.node->op == Op::kEinsum || s.node->op == Op::kLinear) && s.node->phase == Phase::kBackward;
    if (product) products++, early = reductions;
    reductions += s.node->op == Op::kAllReduce;
  }
  EXPECT_GT(products, 4 * 10);
  EXPECT_GT(early, 3 * 8) << "those of all blocks but the first";
}

// Sums of squares read gradients that are joined, in parts or placed by Interleave, as early as others.
TEST(Schedule, SumsSquaresWhileTheLastGradientsTravel) {
  Job job{.model = Tiny("llama"), .precision = kMixed, .global_batch = 8, .named_plan = "vocabulary"};
  job.model = FindFamily("llama")->configure(
      {.layers = 4, .heads = 4, .kv_heads = 2, .dim = 32, .ffn = 48, .vocab = 64, .context = 16});
  job.model.tie_embeddings = false;
  for (bool combine : {false, true})
    for (OverlapMode overlap : {OverlapMode::kAlways, OverlapMode::kHalves}) {
      Layout layout{.dp = 4, .fsdp = Fsdp::kFull, .overlap = overlap, .combine = combine};
      TrainingStep step(job.model, OptionsOf(job, layout));
      Streamed device(layout, 0, /*planned=*/true);
      Plan plan = step.Compile(device.runtime(DeviceKind::kCuda, overlap)).step;
      int early = 0, all = 0;
      bool computed = false;
      for (const Step& s : plan.steps) {
        computed |= s.node->op == Op::kEmbeddingGrad;
        all += s.node->op == Op::kSumOfSquares;
        early += s.node->op == Op::kSumOfSquares && !computed;
      }
      EXPECT_GT(all, 30) << Describe(layout);
      EXPECT_GT(early, all / 2) << Describe(layout) << " combine " << combine << ": " << early << " of " << all;
    }
}
// Kernels wait for the gradients of looked up rows, and not for those of the first block.
TEST(Schedule, SendsActivationsBeforeGradients) {
  Job job{.model = Tiny("llama"), .precision = kMixed, .named_plan = "vocabulary"};
  job.model.vocab = 40;
  job.model.dropout = 0;
  TrainingStep step(job.model, OptionsOf(job, {.dp = 4, .fsdp = Fsdp::kFull}));
  KernelTable table;
  cuda::AddPlannedRows(table);
  LocalProgram now = Schedule(Fuse(step.step(), table));
  int rows = PositionOf(
      now, [](const Node& n) { return n.op == Op::kAllGather && n.phase == Phase::kBackward && IsIn(n, "embed"); });
  std::vector<int> sums =
      PositionsOf(now, [](const Node& n) { return n.op == Op::kReduceScatter && IsIn(n, "blocks.0."); });
  EXPECT_GT(rows, 0);
  EXPECT_LT(rows, sums.back());
  EXPECT_GT(sums.front(), 0);
}

using Order = std::vector<std::pair<size_t, Op>>;
Order OrderOf(const Plan& plan) {
  Order order;
  for (size_t i = 0; i < plan.steps.size(); i++)
    if (IsCollective(plan.steps[i].node->op)) order.emplace_back(i, plan.steps[i].node->op);
  return order;
}

// parallel.overlap decides, and auto means GPUs only.
TEST(Schedule, MovesCollectivesOnlyIfTheyOverlap) {
  Layout layout{.dp = 4, .fsdp = Fsdp::kFull};
  Job job{.model = Tiny("llama")};
  Streamed device(layout);
  TrainingStep step(job.model, OptionsOf(job, layout));
  auto order = [&](DeviceKind kind, OverlapMode overlap) {
    return OrderOf(step.Compile(device.runtime(kind, overlap)).step);
  };
  Order moved = order(DeviceKind::kCuda, OverlapMode::kAuto), kept = order(DeviceKind::kCpu, OverlapMode::kAuto);
  EXPECT_NE(moved, kept);
  for (DeviceKind kind : {DeviceKind::kCpu, DeviceKind::kCuda}) {
    EXPECT_EQ(order(kind, OverlapMode::kAlways), moved) << Name(kind);
    EXPECT_EQ(order(kind, OverlapMode::kNever), kept) << Name(kind);
  }
}

// Ranks with another order would wait for each other forever. So would ranks with other groups, because NCCL spreads
// the calls of a group over its channels. Kernels of a rank without rows need smaller workspaces, so its arena is laid
// out in another way.
TEST(Schedule, OrdersAndJoinsTheSameCollectivesOnAllRanks) {
  std::vector<Layout> layouts = StreamLayouts();
  for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull}) layouts.push_back({.dp = 4, .fsdp = fsdp});
  std::erase_if(layouts, [](const Layout& layout) {
    return layout.executor != ExecutorKind::kCompiled || MeshOf(layout).num_ranks() == 1;
  });
  Precision wired = kMixed;
  wired.wire = DType::kBF16;
  int groups = 0, round = 0;
  for (const char* family : kFamilies)
    for (Layout layout : test::ShareOf(layouts))
      for (OverlapMode overlap : {OverlapMode::kNever, OverlapMode::kAlways, OverlapMode::kFill, OverlapMode::kHalves,
                                  OverlapMode::kChunks}) {
        layout.overlap = overlap;
        Job job{.model = Tiny(family), .precision = round++ % 2 ? wired : kMixed};
        TrainingStep step(job.model, OptionsOf(job, layout));
        std::set<uint64_t> hashes;
        for (int rank = 0; rank < MeshOf(layout).num_ranks(); rank++) {
          Streamed device(layout, rank, /*planned=*/true);
          Runtime runtime = device.runtime(DeviceKind::kCuda, overlap);
          runtime.chunks = 2;
          StepPlans plans = step.Compile(runtime);
          hashes.insert(plans.CommHash(runtime));
          groups += GroupsIn(plans.step, runtime);
        }
        EXPECT_EQ(hashes.size(), 1u) << family << " " << Describe(layout);
      }
  EXPECT_GT(groups, 1000);
}

// No step that may overlap with a collective writes to memory that the collective reads.
TEST(Schedule, APlanKeepsWhatCollectivesReadUntilTheyAreOver) {
  Layout layout{.dp = 4, .fsdp = Fsdp::kFull};
  Job job{.model = Tiny("llama")};
  Streamed device(layout);
  TrainingStep step(job.model, OptionsOf(job, layout));
  Plan plan = step.Compile(device.runtime(DeviceKind::kCuda)).step;
  auto range = [](const PlannedView& v) {
    size_t bytes = size_t(v.view.CapacityElements()) * SizeOf(v.view.dtype);
    return std::pair(v.place.offset, v.place.offset + bytes);
  };
  int held = 0;
  for (size_t i = 0; i < plan.steps.size(); i++) {
    const Node& node = *plan.steps[i].node;
    if (node.op != Op::kReduceScatter || !IsIn(node, "blocks.1.")) continue;
    auto [begin, end] = range(plan.steps[i].in[0]);
    if (plan.steps[i].in[0].place.kind != Place::kArena) continue;
    size_t j = i + 1;
    while (plan.steps[j].node->op == Op::kReduceScatter) j++;  // calls of the same bucket
    for (; j < plan.steps.size() && plan.steps[j].node->op != Op::kReduceScatter; j++)
      for (const PlannedView& out : plan.steps[j].out) {
        if (out.place.kind != Place::kArena) continue;
        auto [from, to] = range(out);
        EXPECT_FALSE(from < end && begin < to) << "step " << j << " takes what step " << i << " reads";
      }
    held++;
  }
  EXPECT_GT(held, 4);
}

// Returns how many batches wait for a collective only because of memory, though fewer than two later ones of its axis
// have begun.
int WaitsForMemory(const Plan& plan, const Runtime& runtime) {
  PretendedAddresses addresses(plan);
  PlannedCalls calls(plan, runtime, [&](const Place& place) { return addresses.At(place); });
  OverlapPlan overlap = calls.Overlap();
  auto meet = [](const TensorView& a, const TensorView& b) {
    auto first = [](const TensorView& v) { return static_cast<const char*>(v.data); };
    auto last = [&](const TensorView& v) { return first(v) + v.SpanElements() * int64_t(SizeOf(v.dtype)); };
    return first(a) && first(b) && first(a) < last(b) && first(b) < last(a);
  };
  auto reads = [&](size_t batch, size_t collective) {
    for (const KernelCall& reader : calls.CallsOf(calls.batches()[batch]))
      for (const KernelCall& made : calls.CallsOf(calls.batches()[collective]))
        for (const TensorView& in : reader.in)
          for (const TensorView& out : made.out)
            if (meet(in, out)) return true;
    return false;
  };
  int waits = 0;
  for (size_t i = 0; i < overlap.entries.size(); i++) {
    if (overlap.entries[i].lane != OverlapPlan::kMain) continue;
    for (size_t w : overlap.entries[i].waits_for) {
      int later = 0;
      for (size_t j = w + 1; j < i; j++) later += overlap.entries[j].lane == overlap.entries[w].lane;
      waits += later < 2 && !reads(i, w);
    }
  }
  return waits;
}

// Memory that a collective reads is not used again while it may still run, however many run on other axes meanwhile.
TEST(Schedule, NoKernelWaitsForMemoryOfLatestCollectives) {
  for (Layout layout : {Layout{.dp = 4, .fsdp = Fsdp::kFull},
                        {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull},
                        {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull},
                        {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull, .combine = true}})
    for (OverlapMode overlap : {OverlapMode::kAlways, OverlapMode::kFill, OverlapMode::kHalves}) {
      layout.overlap = overlap;
      Job job{.model = Tiny("llama"), .precision = kMixed, .global_batch = 8};
      job.model.layers = 6;
      TrainingStep step(job.model, OptionsOf(job, layout));
      Streamed device(layout, 0, /*planned=*/true);
      Runtime runtime = device.runtime(DeviceKind::kCuda, overlap);
      EXPECT_EQ(WaitsForMemory(step.Compile(runtime).step, runtime), 0) << Describe(layout);
    }
}

}  // namespace
}  // namespace weft
