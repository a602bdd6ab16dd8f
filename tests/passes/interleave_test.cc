// Interleave: kernels fill the time of collectives, without keeping much more in memory. host_overlap_test shows that
// the values stay the same.
#include "weft/core/passes/interleave.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

#include "support/training.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/product_flops.h"
#include "weft/core/passes/node_time.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using testing_::Job;
using testing_::Layout;

// Deep enough that blocks repeat, and so large that products take more time than other kernels.
TransformerConfig Model(std::string_view family, int64_t dim = 128) {
  return FindFamily(family)->configure(
      {.layers = 6, .heads = 4, .kv_heads = 4, .dim = dim, .ffn = 4 * dim, .vocab = 64, .context = 64});
}

// The plans of rank 0 of a layout.
StepPlans PlansOf(const TransformerConfig& model, Layout layout, OverlapMode mode, int64_t batch = 8) {
  layout.overlap = mode;
  std::optional<StepPlans> plans;
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    Job job{.model = model, .precision = {DType::kF32, DType::kF32, DType::kF32}, .global_batch = batch};
    TrainingStep step(job.model, OptionsOf(job, layout));
    StepPlans mine = step.Compile(RuntimeOf(context, mesh));
    if (context.rank() == 0) plans = std::move(mine);
  });
  return *std::move(plans);
}
StepPlans PlansOf(std::string_view family, const Layout& layout, OverlapMode mode) {
  return PlansOf(Model(family), layout, mode);
}
Plan PlanOf(std::string_view family, const Layout& layout, OverlapMode mode) {
  return PlansOf(family, layout, mode).step;
}

bool RunsBeside(const Node& node) { return IsCollective(node.op) && node.phase != Phase::kOptimizer; }
// The time of kernels, and of collectives of the forward and the backward pass.
std::pair<double, double> TimesOf(const std::vector<const Node*>& nodes) {
  double kernels = 0, moved = 0;
  for (const Node* node : nodes) (RunsBeside(*node) ? moved : kernels) += NodeTime(*node);
  return {kernels, moved};
}
// Returns how long kernels wait for such collectives, if a byte of these takes `link_time` times as long as in memory.
double Waited(const std::vector<const Node*>& nodes, double link_time) {
  absl::flat_hash_map<const Node*, double> end;
  double now = 0, lane = 0, waited = 0;
  for (const Node* node : nodes) {
    double operands = 0;
    for (const Var& x : node->inputs)
      if (auto it = end.find(&x.node()); it != end.end()) operands = std::max(operands, it->second);
    if (RunsBeside(*node)) {
      end[node] = lane = std::max({lane, now, operands}) + NodeTime(*node) * link_time;
      continue;
    }
    waited += std::max(operands - now, 0.0);
    end[node] = now = std::max(now, operands) + NodeTime(*node);
  }
  return waited;
}
// Returns the part of the time of collectives during which kernels run, if they take as long as all kernels together.
double Hidden(const Plan& plan) {
  std::vector<const Node*> nodes;
  for (const Step& s : plan.steps) nodes.push_back(s.node.get());
  auto [kernels, moved] = TimesOf(nodes);
  return 1 - Waited(nodes, kernels / moved) / kernels;
}

constexpr Layout kTensor{.tp = 2}, kSequence{.tp = 2, .sequence_parallel = true};

// A collective between activations serves the next kernel. In the order of the trace nearly nothing hides it. Gradients
// of weights are a third of the products, and can hide collectives of the backward pass. Two halves hide most of all:
// not all, because a kernel that could start the next collective waits for the running kernel to end.
TEST(Interleave, HidesMoreWithEachMode) {
  for (const char* family : {"gpt2", "llama"})
    for (const Layout& layout : {kTensor, kSequence}) {
      double always = Hidden(PlanOf(family, layout, OverlapMode::kAlways)),
             fill = Hidden(PlanOf(family, layout, OverlapMode::kFill)),
             halves = Hidden(PlanOf(family, layout, OverlapMode::kHalves));
      std::string what = fmt::format("{} {}: {:.3f} {:.3f} {:.3f}", family, Describe(layout), always, fill, halves);
      EXPECT_GT(fill, always + 0.05) << what;
      EXPECT_GT(halves, fill + 0.2) << what;
      EXPECT_GT(halves, 0.5) << what;
    }
}

// A sequence has no halves, and its rows are cut instead. Chunks hide less than halves, because attention reads all
// rows.
TEST(Interleave, HidesTheCollectivesOfOneSequenceByChunks) {
  for (const char* family : {"gpt2", "llama"})
    for (const Layout& layout : {kTensor, kSequence}) {
      TransformerConfig model = Model(family, 512);
      model.context = 1024;
      double fill = Hidden(PlansOf(model, layout, OverlapMode::kFill, 1).step),
             chunks = Hidden(PlansOf(model, layout, OverlapMode::kChunks, 1).step);
      std::string what = fmt::format("{} {}: {:.3f} {:.3f}", family, Describe(layout), fill, chunks);
      EXPECT_GT(chunks, fill + 0.2) << what;
      EXPECT_GT(chunks, 0.5) << what;
    }
}

// A product is late by at most about a block's work. So of halves, the gradients of a block's weights live twice.
TEST(Interleave, KeepsLittleMoreInMemory) {
  constexpr double kBlock = 4 * (4 * 128 * 128 + 3 * 128 * 512);  // bytes of a llama block's weights
  for (const char* family : {"gpt2", "llama"})
    for (Layout layout : {kTensor, kSequence, Layout{.dp = 2, .tp = 2, .fsdp = Fsdp::kFull},
                          Layout{.tp = 2, .micro_batch = 4}, Layout{.dp = 2, .micro_batch = 2}}) {
      layout.chunks = 2;
      double always = double(PlansOf(family, layout, OverlapMode::kAlways).Largest().arena_bytes);
      auto bytes = [&](OverlapMode mode) { return double(PlansOf(family, layout, mode).Largest().arena_bytes); };
      EXPECT_LT(bytes(OverlapMode::kFill), 1.1 * always) << family << " " << Describe(layout);
      EXPECT_LT(bytes(OverlapMode::kHalves), 1.1 * always + 2 * kBlock) << family << " " << Describe(layout);
      EXPECT_LT(bytes(OverlapMode::kChunks), 1.1 * always) << family << " " << Describe(layout);
    }
}

// An order for links of a known speed leaves less to wait for than one for links as slow as kernels.
TEST(Interleave, HidesMoreOfLinksOfKnownSpeed) {
  constexpr double kLinkTime = 28, kSlow = std::numeric_limits<double>::infinity();
  Job job{.model = Model("llama", 4096), .precision = {DType::kBF16, DType::kF32, DType::kF32}, .global_batch = 4};
  job.model.context = 1024;
  for (OverlapMode mode : {OverlapMode::kFill, OverlapMode::kHalves}) {
    Layout layout{.tp = 4, .sequence_parallel = true, .overlap = mode};
    LocalProgram program = TrainingStep(job.model, OptionsOf(job, layout)).step();
    auto nodes = [](const LocalProgram& p) {
      std::vector<const Node*> all;
      for (const auto& node : p.graph.nodes) all.push_back(node.get());
      return all;
    };
    auto [kernels, moved] = TimesOf(nodes(program));
    EXPECT_LT(kLinkTime * moved, kernels) << "else both orders are for slow links";
    double known = Waited(nodes(Interleave(program, kLinkTime)), kLinkTime);
    double slow = Waited(nodes(Interleave(program, kSlow)), kLinkTime);
    EXPECT_LT(known, slow) << testing_::Describe(layout);
    double hidden = 1 - known / (kLinkTime * moved);
    EXPECT_GT(hidden, mode == OverlapMode::kHalves ? 0.8 : 0.3) << testing_::Describe(layout);
  }
}

// The update comes last, so parameters are written in place. Only its reductions of gradients begin before, and sums of
// squares of those.
TEST(Interleave, LeavesTheUpdateLast) {
  for (const Layout& layout : {kSequence, Layout{.dp = 2}}) {
    Plan plan = PlanOf("llama", layout, OverlapMode::kFill);
    EXPECT_TRUE(plan.copies.empty());
    bool updates = false;
    int early = 0;
    for (const Step& s : plan.steps) {
      bool of_update = s.node->phase == Phase::kOptimizer;
      early += of_update && IsCollective(s.node->op) && !updates;
      updates |= of_update && !IsCollective(s.node->op) && s.node->op != Op::kSumOfSquares;
      if (updates) {
        EXPECT_TRUE(of_update) << Name(s.node->op);
      }
    }
    EXPECT_GT(early, 10) << Describe(layout);
  }
}

}  // namespace
}  // namespace weft
