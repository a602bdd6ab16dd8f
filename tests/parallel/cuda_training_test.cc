// A GPU trains as the CPU does: the losses of whole runs agree, for every model family and executor.
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>

#include "dist/wire_cases.h"
#include "support/device_under_test.h"
#include "support/rank_run.h"
#include "support/staged_group.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using testing_::DeviceUnderTest;  // without a GPU both runs are on the CPU, so the tests check themselves
using testing_::Job;
using testing_::Layout;
using testing_::RunResult;

class CudaTraining : public testing::TestWithParam<std::tuple<const char*, ExecutorKind, DType>> {};

// In f32 the GPU sums products in another order, which costs 1e-7 per term, and 50 steps of Adam carry the error along.
// The limit is 1e-4. In f64 a term costs 1e-16.
TEST_P(CudaTraining, LossesAreTheCpus) {
  auto [family, executor, dtype] = GetParam();
  Job job{.model = testing_::Tiny(family), .precision = {dtype, dtype, dtype}};
  Layout cpu, gpu;
  gpu.device = DeviceUnderTest();
  gpu.executor = executor;
  gpu.micro_batch = 2;
  cpu.micro_batch = 2;
  RunResult want = testing_::Train(job, cpu), got = testing_::Train(job, gpu);
  double tolerance = dtype == DType::kF64 ? 1e-9 : 1e-4;
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++) {
    ASSERT_LE(std::abs(got.losses[i] - want.losses[i]), tolerance * std::abs(want.losses[i])) << "step " << i + 1;
    ASSERT_LE(std::abs(got.norms[i] - want.norms[i]), 100 * tolerance * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_EQ(got.eval_count, want.eval_count);
  EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), tolerance * std::abs(want.eval_sum));
}

// ---- Every run has the same bits by default. ----

class CudaBits : public testing::TestWithParam<std::tuple<const char*, DType>> {};

TEST_P(CudaBits, AreThoseOfTheLastRun) {
  setenv("WEFT_TUNE", "0", 1);  // choices by timing could differ
  auto [family, dtype] = GetParam();
  Job job{.model = testing_::Tiny(family), .precision = {dtype, DType::kF32, DType::kF32}, .steps = 20};
  Layout layout{.micro_batch = 2, .device = DeviceUnderTest()};
  RunResult first = testing_::Train(job, layout);
  for (int run = 1; run < 3; run++) {
    RunResult again = testing_::Train(job, layout);
    EXPECT_EQ(again.losses, first.losses);
    EXPECT_EQ(again.norms, first.norms);
    EXPECT_EQ(again.eval_sum, first.eval_sum);
  }
  layout.copies = true;
  RunResult kept = testing_::Train(job, layout);
  EXPECT_EQ(kept.losses, first.losses) << "copies of weights change bits";
  EXPECT_EQ(kept.norms, first.norms);
  EXPECT_EQ(kept.eval_sum, first.eval_sum);
  unsetenv("WEFT_TUNE");
}
INSTANTIATE_TEST_SUITE_P(All, CudaBits,
                         testing::Combine(testing::ValuesIn(testing_::kFamilies),
                                          testing::Values(DType::kBF16, DType::kF32)));

// ---- f16, with a loss scale. ----

class CudaF16 : public testing::TestWithParam<std::tuple<const char*, ExecutorKind>> {
 protected:
  static Job F16(const char* family, double scale) {
    return {.model = testing_::Tiny(family),
            .precision = {DType::kF16, DType::kF32, DType::kF32},
            .steps = 20,
            .loss_scale = {.initial = scale, .growth_interval = 8}};
  }
};

// In 20 steps, losses of different layouts on CPUs differ by 2.7e-5, and f16 differs from f32 by 5.1e-5
// (loss_scale_test). A GPU may also round a product once where the CPU rounds twice. The scale grows in the same way on
// both, because it starts far below f16's limit.
TEST_P(CudaF16, LossesAreTheCpus) {
  auto [family, executor] = GetParam();
  Layout cpu{.micro_batch = 2}, gpu{.micro_batch = 2, .executor = executor, .device = DeviceUnderTest()};
  RunResult want = testing_::Train(F16(family, 256), cpu), got = testing_::Train(F16(family, 256), gpu);
  ASSERT_EQ(got.losses.size(), want.losses.size());
  for (size_t i = 0; i < want.losses.size(); i++) {
    ASSERT_LE(std::abs(got.losses[i] - want.losses[i]), 3e-4 * std::abs(want.losses[i])) << "step " << i + 1;
    ASSERT_LE(std::abs(got.norms[i] - want.norms[i]), 3e-2 * want.norms[i]) << "step " << i + 1;
  }
  EXPECT_EQ(got.scales, want.scales);
  EXPECT_EQ(want.scales.back(), 1024);
  EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), 3e-4 * std::abs(want.eval_sum));
}

// The device skips steps until the scale fits f16, also in the captured graph, which runs from the third step on. The
// number of steps depends on the device, because sums of products that stay in f32 leave more room.
TEST_P(CudaF16, FindsItsLossScale) {
  auto [family, executor] = GetParam();
  RunResult got = testing_::Train(F16(family, 0x1p30), {.executor = executor, .device = DeviceUnderTest()});
  size_t skipped = 0;
  while (skipped < got.norms.size() && !std::isfinite(got.norms[skipped])) skipped++;
  ASSERT_GE(skipped, 5u);
  ASSERT_LT(skipped + 2, got.norms.size());
  for (size_t i = 0; i < skipped; i++) {
    EXPECT_TRUE(std::isfinite(got.losses[i])) << "step " << i + 1;
    EXPECT_EQ(got.scales[i + 1], got.scales[i] / 2) << "step " << i + 1;
  }
  EXPECT_LT(got.losses.back(), got.losses.front());
}

const auto kExecutors = testing::Values(ExecutorKind::kCompiled, ExecutorKind::kInterpret, ExecutorKind::kEager);
INSTANTIATE_TEST_SUITE_P(All, CudaF16, testing::Combine(testing::ValuesIn(testing_::kFamilies), kExecutors));
INSTANTIATE_TEST_SUITE_P(All, CudaTraining,
                         testing::Combine(testing::ValuesIn(testing_::kFamilies), kExecutors,
                                          testing::Values(DType::kF64, DType::kF32)));

// ---- Meshes, whose ranks share the GPU. ----

class CudaMeshes : public testing::TestWithParam<std::tuple<const char*, DType>> {};

// Against one rank of the CPU: an f32 sum costs 1e-7 per term, and 10 steps of Adam carry the error along.
TEST_P(CudaMeshes, LossesAreOneRanksOfTheCpu) {
  auto [family, dtype] = GetParam();
  Job job{.model = testing_::Tiny(family), .precision = {dtype, dtype, dtype}, .steps = 10};
  double tolerance = dtype == DType::kF64 ? 1e-9 : 1e-5;
  for (Layout layout : testing_::StreamLayouts()) {
    RunResult want = testing_::Train(job, {.micro_batch = layout.micro_batch});
    layout.device = DeviceUnderTest();
    RunResult got = testing_::Train(job, layout);
    std::string what = testing_::Describe(layout);
    ASSERT_EQ(got.losses.size(), want.losses.size());
    for (size_t i = 0; i < want.losses.size(); i++) {
      EXPECT_LE(std::abs(got.losses[i] - want.losses[i]), tolerance * want.losses[i]) << what << ", step " << i + 1;
      EXPECT_LE(std::abs(got.norms[i] - want.norms[i]), 100 * tolerance * want.norms[i]) << what << ", step " << i + 1;
    }
    EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), tolerance * std::abs(want.eval_sum)) << what;
  }
}
INSTANTIATE_TEST_SUITE_P(All, CudaMeshes,
                         testing::Combine(testing::ValuesIn(testing_::kFamilies),
                                          testing::Values(DType::kF64, DType::kF32)));

// ---- Products that share an operand, as one. ----

// The gradient of such an operand is one sum, which is rounded once: 1e-7 per term in f32. In bf16 a sum may round to a
// neighbour, 2^-8 apart, in each step.
TEST(CudaCombine, GivesTheLossesOfSingleProducts) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    Job job{.model = FindFamily("llama")->configure(
                {.layers = 2, .heads = 8, .kv_heads = 4, .dim = 256, .ffn = 512, .vocab = 512, .context = 64}),
            .precision = {compute, DType::kF32, DType::kF32},
            .global_batch = 4,
            .steps = 10};
    double tolerance = compute == DType::kBF16 ? 1e-2 : 1e-5;
    std::vector<Layout> layouts = testing_::StreamLayouts();
    layouts.push_back({.copies = true});
    for (bool copies : {false, true})  // also of the rows of both halves
      layouts.push_back({.tp = 2, .sequence_parallel = true, .overlap = OverlapMode::kHalves, .copies = copies});
    for (Layout layout : layouts) {
      layout.device = DeviceUnderTest();
      RunResult want = testing_::Train(job, layout);
      layout.combine = true;
      RunResult got = testing_::Train(job, layout);
      EXPECT_LE(testing_::LossDistance(got, want), tolerance) << testing_::Describe(layout);
    }
  }
}

// The gradient of the MLP's product may round to a neighbour, 2^-8 apart, in each step.
TEST(CudaActivationGrads, GiveTheLossesOfSeparateOnes) {
  for (const char* family : {"llama", "gpt2"}) {  // SwiGLU and GELU
    Job job{.model = FindFamily(family)->configure(
                {.layers = 2, .heads = 4, .kv_heads = 4, .dim = 256, .ffn = 512, .vocab = 512, .context = 512}),
            .precision = {DType::kBF16, DType::kF32, DType::kF32},
            .steps = 6};
    for (Layout layout : {Layout{},
                          {.combine = true},
                          {.tp = 2, .sequence_parallel = true, .combine = true},
                          {.tp = 2, .sequence_parallel = true, .overlap = OverlapMode::kHalves, .combine = true}}) {
      job.global_batch = layout.overlap == OverlapMode::kHalves ? 8 : 4;  // 2,048 tokens at a time, as SwiGLU's needs
      layout.device = DeviceUnderTest();
      RunResult fused = testing_::Train(job, layout);
      layout.activation_grads = false;
      RunResult separate = testing_::Train(job, layout);
      EXPECT_LE(testing_::LossDistance(fused, separate), 1e-2) << family << ", " << testing_::Describe(layout);
    }
  }
}

// However many parts the logits are cut into, each part's losses are those of its rows, and the gradient of the last
// product's weights is summed in f32, in another order: 1e-7 per term. In bf16 it may round to a neighbour, 2^-8 apart,
// in each step.
TEST(CudaLogits, GiveTheSameLossesInParts) {
  for (DType compute : {DType::kF32, DType::kBF16}) {
    Job job{.model = FindFamily("llama")->configure(
                {.layers = 1, .heads = 4, .kv_heads = 2, .dim = 64, .ffn = 128, .vocab = 500, .context = 200}),
            .precision = {compute, DType::kF32, DType::kF32},
            .global_batch = 5,
            .steps = 6};
    double tolerance = compute == DType::kBF16 ? 1e-2 : 1e-5;
    Layout layout{.device = DeviceUnderTest()};
    RunResult want = testing_::Train(job, layout);
    for (int64_t bytes : {1, 150'000, 500'000}) {  // 1,000 rows are 8, 4 or 3 parts in bf16
      layout.logit_bytes = bytes;
      EXPECT_LE(testing_::LossDistance(testing_::Train(job, layout), want), tolerance)
          << Name(compute) << ", " << bytes << " bytes";
    }
  }
}

// ---- Sums over ranks whose terms are sent as bf16. ----

// The ranks share the GPU, which rounds and adds. The host's groups move the rounded terms.
TEST(CudaWire, RowsAddRoundedTermsInRankOrder) {
  for (int ranks = 1; ranks <= 4; ranks++)
    RunRanks(ranks, [&](Context& context, GroupFactory& groups) {
      DeviceKind kind = DeviceUnderTest();
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      if (kind == DeviceKind::kCuda)
        if (absl::Status s = OpenCuda(context, 0); !s.ok()) throw Error(std::string(s.message()));
      RegisterCollectives(context.kernels(kind), kind);
      if (kind == DeviceKind::kCpu) {
        DeviceMesh mesh(context, groups, {{"x"}, {ranks}});
        test::CheckWireRows(mesh, context, kind);
        return;
      }
      StagedGroupFactory staged(groups, *StreamsOf(context.device(kind)));
      DeviceMesh mesh(context, staged, {{"x"}, {ranks}}, staged.kinds());
      test::CheckWireRows(mesh, context, kind);
    });
}

// ---- A profile: the same bits, and timestamps of the stream that add up. ----

// Returns the losses of eight steps. The fourth and fifth are profiled; by then a GPU replays a recording.
std::vector<double> ProfiledLosses(const Job& job, const Layout& layout, bool profiled) {
  std::vector<double> losses;
  testing_::OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    testing_::RankRun run(job, layout, context, mesh);
    for (int step = 1; step <= 8; step++) {
      if (profiled && step == 4) run.runner->StartProfile(2);
      losses.push_back(run.Step(step).loss);
      if (!profiled || step != 5) continue;
      std::vector<RunProfile::Step> steps = run.runner->TakeProfile()->Read();
      ASSERT_EQ(steps.size(), 2u);
      int64_t at = steps[0].span.begin;
      for (const RunProfile::Step& timed : steps) {
        ASSERT_EQ(int(timed.runs.size()), run.options.micro_steps);
        EXPECT_GE(timed.span.begin, at);
        for (const RunProfile::ProgramRun& program : timed.runs)
          for (const RunProfile::Span& batch : program.batches) {
            EXPECT_GE(batch.begin, at);
            EXPECT_GE(batch.end, batch.begin);
            at = batch.end;
          }
        EXPECT_GE(timed.span.end, at);
        at = timed.span.end;
      }
    }
  });
  return losses;
}

TEST(CudaProfile, ChangesNoBitAndAddsUp) {
  setenv("WEFT_TUNE", "0", 1);
  Job job{.model = testing_::TinyGpt2(), .precision = {DType::kF32, DType::kF32, DType::kF32}};
  Layout layout{.micro_batch = 2, .device = DeviceUnderTest()};
  std::vector<double> want = ProfiledLosses(job, layout, false);
  ASSERT_EQ(want.size(), 8u);
  EXPECT_EQ(ProfiledLosses(job, layout, true), want);
}

}  // namespace
}  // namespace weft
