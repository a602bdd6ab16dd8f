// The order of a step's collectives on a device that overlaps them with kernels: weights are gathered one block early,
// gradients are reduced one block at a time, and other collectives stay where they were. double_training_test shows
// that values keep their bits.
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
#include "weft/core/passes/schedule.h"
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

// With full sharding, weights have one bucket per block and pass, and gradients one per block.
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
        EXPECT_GT(bucket.calls, 4) << family << " " << bucket.block;
      }
    for (int64_t i = 0; i < job.model.layers; i++) {
      std::string block = fmt::format("blocks.{}", i);
      for (Phase phase : {Phase::kForward, Phase::kBackward})
        EXPECT_EQ((buckets[{Op::kAllGather, block, phase}]), 1) << family << " " << block;
      EXPECT_EQ((buckets[{Op::kReduceScatter, block, Phase::kBackward}]), 1) << family << " " << block;
    }
  }
}

int PositionOf(const LocalProgram& program, const std::function<bool(const Node&)>& is) {
  for (size_t i = 0; i < program.graph.nodes.size(); i++)
    if (is(*program.graph.nodes[i])) return int(i);
  return -1;
}
bool IsIn(const Node& node, const char* block) { return node.scope && node.scope->starts_with(block); }

// The gather of block 1's weights starts before block 0 computes. The reduction of block 1's gradients starts before
// the gradients of block 0 are computed.
TEST(Schedule, WeightsComeABlockEarlyAndGradientsLeaveAtOnce) {
  Layout layout{.dp = 4, .fsdp = Fsdp::kFull};
  Job job{.model = Tiny("llama"), .precision = kMixed};
  TrainingStep step(job.model, OptionsOf(job, layout));
  LocalProgram now = Schedule(step.step());
  int gather = PositionOf(now, [](const Node& n) { return n.op == Op::kAllGather && IsIn(n, "blocks.1."); });
  int compute = PositionOf(now, [](const Node& n) { return n.op == Op::kEinsum && IsIn(n, "blocks.0."); });
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

}  // namespace
}  // namespace weft
