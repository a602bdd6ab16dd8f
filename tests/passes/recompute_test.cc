// Recomputing changes no bit of a run. It frees memory, and `selective` repeats no product and no collective.
#include "weft/core/passes/recompute.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "support/training.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/product_flops.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

constexpr RecomputeOptions kNone{}, kSelective{RecomputeMode::kSelective}, kFull{RecomputeMode::kFull};
constexpr RecomputeOptions Share(double share) { return {RecomputeMode::kBudget, share}; }

std::vector<Layout> Layouts() {
  return {{},
          {.dp = 1, .micro_batch = 2},
          {.dp = 2, .tp = 2},
          {.dp = 1, .tp = 3, .sequence_parallel = true},
          {.dp = 3, .fsdp = Fsdp::kGradients},
          {.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1},
          {.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull},
          {.dp = 2, .tp = 2, .fsdp = Fsdp::kFull, .regather = false},
          {.dp = 2, .fsdp = Fsdp::kFull, .replicate = 2}};
}

struct Param {
  const char* family;
  DType dtype;
};
class RecomputeOf : public testing::TestWithParam<Param> {};

TEST_P(RecomputeOf, ChangesNoBit) {
  auto [family, dtype] = GetParam();
  Job job{.model = Tiny(family),
          .precision = {dtype, DType::kF32, DType::kF32},
          .steps = 3,
          .named_plan = FindFamily(family)->plan};
  for (Layout layout : Layouts()) {
    RunResult plain = Train(job, layout);
    for (RecomputeOptions how : {kSelective, kFull, Share(0.5), Share(1)}) {
      layout.recompute = how;
      RunResult again = Train(job, layout);
      std::string what = fmt::format("{} mode {} share {}", Describe(layout), int(how.mode), how.share);
      EXPECT_EQ(again.losses, plain.losses) << what;
      EXPECT_EQ(again.norms, plain.norms) << what;
      EXPECT_EQ(again.eval_sum, plain.eval_sum) << what;
    }
  }
}

std::vector<Param> AllParams() {
  std::vector<Param> all;
  for (const char* family : {"gpt2", "llama", "neox", "bert", "gemma2", "marian"}) all.push_back({family, DType::kF32});
  for (const char* family : {"gpt2", "llama"}) all.push_back({family, DType::kBF16});
  return all;
}
INSTANTIATE_TEST_SUITE_P(All, RecomputeOf, testing::ValuesIn(AllParams()),
                         [](const auto& p) { return fmt::format("{}_{}", p.param.family, Name(p.param.dtype)); });

// So many that the activations of a block take more memory than its gradients.
constexpr int kRows = 40, kTokens = 64, kWidth = 64;

// The cost of a step on rank 0 of a layout.
struct StepCost {
  size_t bytes = 0;  // of the arena; with several micro-steps, of one that is not the last
  double flops = 0;  // of products and attention
  size_t collectives = 0;
};
StepCost CostOf(const TransformerConfig& model, Layout layout, const RecomputeOptions& how) {
  layout.recompute = how;
  StepCost cost;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    Job job{.model = model, .precision = {DType::kF32, DType::kF32, DType::kF32}, .global_batch = kRows};
    TrainingStep step(model, OptionsOf(job, layout));
    StepPlans plans = step.Compile(RuntimeOf(context, mesh, DeviceKind::kCpu));
    if (context.rank() != 0) return;
    cost.bytes = (plans.accumulate ? *plans.accumulate : plans.step).arena_bytes;
    for (const Step& s : plans.step.steps) {
      cost.flops += ProductFlops(*s.node, [&](size_t i, size_t d) { return s.node->inputs[i].shape()[d]; });
      cost.collectives += IsCollective(s.node->op);
    }
  });
  return cost;
}

TransformerConfig Deep(std::string_view family, int layers) {
  return FindFamily(family)->configure({.layers = layers,
                                        .heads = 4,
                                        .kv_heads = 4,
                                        .dim = kWidth,
                                        .ffn = 256,
                                        .vocab = 32,
                                        .context = kTokens,
                                        .dropout = 0.1});
}

TEST(Recompute, SelectiveRepeatsNoProductAndNoCollective) {
  for (const char* family : {"gpt2", "llama"})
    for (const Layout& layout : Layouts()) {
      StepCost none = CostOf(Deep(family, 4), layout, kNone), selective = CostOf(Deep(family, 4), layout, kSelective);
      EXPECT_EQ(selective.flops, none.flops) << family << Describe(layout);
      EXPECT_EQ(selective.collectives, none.collectives) << family << Describe(layout);
      EXPECT_LT(selective.bytes, none.bytes) << family << Describe(layout);
    }
}

// With `full`, a block keeps only its operand. Gradients go straight to their accumulators, so a micro-step keeps no
// more.
TEST(Recompute, FullKeepsOneValuePerBlock) {
  for (const char* family : {"gpt2", "llama"})
    for (int64_t rows : {kRows, kRows / 2}) {
      Layout layout{.micro_batch = rows == kRows ? 0 : rows};
      size_t four = CostOf(Deep(family, 4), layout, kFull).bytes, eight = CostOf(Deep(family, 8), layout, kFull).bytes;
      EXPECT_EQ(eight - four, size_t(4 * 4 * rows * kTokens * kWidth)) << family << " " << rows << " rows";
    }
}

// A step of the share frees at most what one block keeps. It may also cost some, because values of a block that are
// computed again live at the same time, but at most a fifth of what a block keeps.
TEST(Recompute, MemoryFallsWithTheShare) {
  constexpr int kLayers = 6, kParts = 24;
  for (const char* family : {"gpt2", "llama"}) {
    TransformerConfig model = Deep(family, kLayers);
    auto bytes_at = [&](const RecomputeOptions& how) { return double(CostOf(model, {}, how).bytes); };
    double none = bytes_at(kNone), full = bytes_at(kFull), block = (none - full) / kLayers, last = none;
    for (int part = 0; part <= kParts; part++) {
      double bytes = bytes_at(Share(double(part) / kParts));
      EXPECT_LE(bytes, last + block / 5) << family << " part " << part;
      EXPECT_GE(bytes, last - block * 1.05) << family << " part " << part;
      last = bytes;
    }
    EXPECT_LE(last, full * 1.1) << family;
  }
}

}  // namespace
}  // namespace weft
