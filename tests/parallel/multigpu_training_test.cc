// Training on as many GPUs as mpirun starts ranks, connected by NCCL. The losses agree with one rank of the CPU.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <memory>
#include <string>

#include "dist/gpu_world.h"
#include "dist/stream_cases.h"
#include "dist/wire_cases.h"
#include "support/rank_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/nccl/nccl_group.h"

namespace weft {
namespace {

using namespace testing_;

constexpr DeviceKind kGpu = DeviceKind::kCuda;

// Returns layouts with copies of what dp ranks shard or of what tp ranks do.
std::vector<Layout> HybridsOf(int ranks) {
  std::vector<Layout> layouts;
  for (int replicate = 2; replicate <= ranks; replicate++) {
    int each = ranks / replicate;
    if (each * replicate != ranks) continue;
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
      for (int64_t micro : {0, 1})
        if (each > 1 || fsdp == Fsdp::kNone)
          layouts.push_back({.dp = each, .fsdp = fsdp, .micro_batch = micro, .replicate = replicate});
    for (bool sp : {false, true})
      if (each > 1) layouts.push_back({.tp = each, .sequence_parallel = sp, .replicate = replicate});
  }
  return layouts;
}

// Returns every way to arrange the ranks on axes, with each kind of sharding that it allows, and every kind of overlap
// and executor. layouts_test has more ranks, on CPUs and on one GPU.
std::vector<Layout> LayoutsOf(int ranks) {
  std::vector<Layout> layouts;
  for (int dp = 1; dp <= ranks; dp++) {
    if (ranks % dp != 0) continue;
    int tp = ranks / dp;
    for (bool sp : {false, true})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        for (int64_t micro : {0, 1})
          if ((tp > 1 || !sp) && (dp > 1 || fsdp == Fsdp::kNone))
            layouts.push_back({.dp = dp, .tp = tp, .sequence_parallel = sp, .fsdp = fsdp, .micro_batch = micro});
    for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull})
        if (dp > 1 && tp > 1)
          layouts.push_back(
              {.dp = dp, .tp = tp, .sequence_parallel = true, .fsdp = fsdp, .micro_batch = 2, .executor = executor});
  }
  for (const Layout& hybrid : HybridsOf(ranks)) layouts.push_back(hybrid);
  for (OverlapMode overlap : {OverlapMode::kNever, OverlapMode::kFill, OverlapMode::kHalves, OverlapMode::kChunks}) {
    layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .overlap = overlap});
    layouts.push_back({.dp = 1, .tp = ranks, .sequence_parallel = true, .overlap = overlap});
    layouts.back().chunks = overlap == OverlapMode::kChunks ? 2 : 0;
  }
  for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager})
    layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .micro_batch = 1, .executor = executor});
  return layouts;
}

// Returns the mesh of a layout. Creating its communicators takes longer than ten steps, so layouts share meshes.
DeviceMesh& SharedMesh(const Layout& layout) {
  static auto* meshes = new std::map<std::string, std::unique_ptr<DeviceMesh>>;  // never destroyed, as the world
  GpuWorld& world = TheGpuWorld();
  MeshShape shape = MeshOf(layout);
  std::unique_ptr<DeviceMesh>& mesh = (*meshes)[ToString(shape)];
  if (!mesh) {
    mesh = std::make_unique<DeviceMesh>(world.context, *world.groups, shape, world.groups->kinds());
    mesh->set_timeout(std::chrono::seconds(60));  // a layout that hangs fails, and names the collective
  }
  mesh->set_overlap(layout.overlap, layout.chunks);
  return *mesh;
}

// As weft train joins products of weights in bf16.
bool JoinsByDefault(const Layout& layout) { return layout.tp > 1 || layout.fsdp == Fsdp::kFull; }

// Returns the losses of a layout. With copied gathers the mesh is its own, as its second communicators come and go.
RunResult RunOnMesh(const Job& job, const Layout& layout) {
  GpuWorld& world = TheGpuWorld();
  world.context.set_numerics({.combine = layout.combine});
  if (layout.gather != GatherMode::kCopy) return RunOnRank(job, layout, world.context, SharedMesh(layout));
  DeviceMesh mesh(world.context, *world.groups, MeshOf(layout), world.groups->kinds());
  mesh.set_overlap(layout.overlap, layout.chunks);
  return RunOnRank(job, layout, world.context, mesh);
}

// Says how long a layout took, so that the log of a run that is cut short names the slow ones.
class Progress {
 public:
  explicit Progress(std::string what) : what_(std::move(what)) {}
  ~Progress() {
    std::chrono::duration<double> seconds = std::chrono::steady_clock::now() - begin_;
    if (TheGpuWorld().bootstrap.rank() == 0) fmt::print("{:.1f} s: {}\n", seconds.count(), what_);
    std::fflush(stdout);
  }

 private:
  std::string what_;
  std::chrono::steady_clock::time_point begin_ = std::chrono::steady_clock::now();
};

// Checks losses and norms, which may differ by a part of them.
void ExpectNear(const RunResult& got, const RunResult& want, double losses, double norms, const std::string& what) {
  ASSERT_EQ(got.losses.size(), want.losses.size()) << what;
  for (size_t i = 0; i < want.losses.size(); i++) {
    EXPECT_LE(std::abs(got.losses[i] - want.losses[i]), losses * want.losses[i]) << what << ", step " << i + 1;
    EXPECT_LE(std::abs(got.norms[i] - want.norms[i]), norms * want.norms[i]) << what << ", step " << i + 1;
  }
}

class MultiGpu : public testing::TestWithParam<const char*> {};

Job JobOf(const char* family, const Precision& precision) {
  return {.model = Tiny(family), .precision = precision, .steps = 10, .named_plan = FindFamily(family)->plan};
}

// NCCL sums in an order of its own, which costs 1e-16 per sum in f64 and 1e-7 in f32, over ten steps of Adam.
TEST_P(MultiGpu, LossesAreOneRanksOfTheCpu) {
  GpuWorld& world = TheGpuWorld();
  for (DType dtype : {DType::kF64, DType::kF32}) {
    Job job = JobOf(GetParam(), {dtype, dtype, dtype});
    double tolerance = dtype == DType::kF64 ? 1e-9 : 1e-5;
    std::map<int64_t, RunResult> wanted;  // by micro-batch
    for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
      if (!wanted.contains(layout.micro_batch))
        wanted[layout.micro_batch] = Train(job, {.micro_batch = layout.micro_batch});
      const RunResult& want = wanted[layout.micro_batch];
      layout.device = kGpu;
      std::string what = fmt::format("{} {} {}", GetParam(), Describe(layout), Name(dtype));
      Progress progress(what);
      RunResult got = RunOnMesh(job, layout);
      ExpectNear(got, want, tolerance, 100 * tolerance, what);
      EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), tolerance * std::abs(want.eval_sum)) << what;
    }
  }
}

// The plan of the rows of FSDP, in which each dp rank has a part of the embedding's vocabulary.
TEST_P(MultiGpu, TheVocabularyMayBeSharded) {
  GpuWorld& world = TheGpuWorld();
  Job job = JobOf(GetParam(), {DType::kF64, DType::kF64, DType::kF64});
  if (std::string_view(job.named_plan) != "megatron") GTEST_SKIP() << "the plan is of models with Megatron's";
  job.named_plan = "vocabulary";
  RunResult want = Train(job, {});
  for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
    if (layout.dp == 1 || layout.micro_batch != 0) continue;
    layout.device = kGpu;
    std::string what = fmt::format("{} {} vocabulary", GetParam(), Describe(layout));
    Progress progress(what);
    ExpectNear(RunOnMesh(job, layout), want, 1e-9, 1e-7, what);
  }
}

// In ten steps in bf16, losses of meshes of CPUs differ by up to 1.1e-4 from those of one rank, and norms by 4.2e-3; so
// do runs in bf16 and f32. A GPU also rounds products in another order. Another run has the same bits, and so has one
// that keeps its weights in bf16.
TEST_P(MultiGpu, LossesInBf16AreOneRanksOfTheCpu) {
  setenv("WEFT_TUNE", "0", 1);  // choices by timing could differ between runs
  GpuWorld& world = TheGpuWorld();
  Job job = JobOf(GetParam(), {DType::kBF16, DType::kF32, DType::kF32});
  std::map<int64_t, RunResult> wanted;  // by micro-batch
  for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
    if (!wanted.contains(layout.micro_batch))
      wanted[layout.micro_batch] = Train(job, {.micro_batch = layout.micro_batch});
    layout.device = kGpu;
    std::string what = fmt::format("{} {} in bf16", GetParam(), Describe(layout));
    Progress progress(what);
    layout.combine = JoinsByDefault(layout);
    RunResult got = RunOnMesh(job, layout), again = RunOnMesh(job, layout);
    ExpectNear(got, wanted[layout.micro_batch], 5e-4, 2e-2, what);
    EXPECT_EQ(again.losses, got.losses) << what << ": another run has other bits";
    layout.copies = true;
    RunResult kept = RunOnMesh(job, layout);
    EXPECT_EQ(kept.losses, got.losses) << what << ": copies of weights change bits";
    EXPECT_EQ(kept.norms, got.norms) << what << ": copies of weights change bits";
  }
  unsetenv("WEFT_TUNE");
}

// The calls and bytes of each axis and op. A GPU has kernels for other ops than the CPU, so its program may cut a
// reduction into chunks where the CPU's does not. With chunks only the bytes of reductions are compared.
std::map<std::string, std::pair<int64_t, int64_t>> CountsOf(const RunResult& result, const Layout& layout) {
  std::map<std::string, std::pair<int64_t, int64_t>> counts;
  for (const auto& [what, count] : result.counts) {
    bool reduces = what.second == Name(CollectiveOp::kAllReduce) || what.second == Name(CollectiveOp::kReduceScatter);
    bool cut = layout.overlap == OverlapMode::kChunks && reduces;
    counts[fmt::format("{} on axis {}", what.second, what.first)] = {cut ? 0 : count.calls, count.bytes};
  }
  return counts;
}

// Gradients are sent as bf16. NCCL sums none of them, so data parallel runs repeat bit for bit. The last bit of an f32
// value may decide between two neighbours in bf16, 2^-8 apart. For comparison, rounding gradients at all changes losses
// of these sizes by 1e-4 and norms by 1e-3.
TEST_P(MultiGpu, GradientsMayCrossInBf16) {
  setenv("WEFT_TUNE", "0", 1);  // choices by timing could differ between runs
  GpuWorld& world = TheGpuWorld();
  Job job = JobOf(GetParam(), {DType::kF32, DType::kF32, DType::kF32, DType::kBF16});
  for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
    std::string what = fmt::format("{} {}", GetParam(), Describe(layout));
    Progress progress(what);
    RunResult want = Train(job, layout);
    layout.device = kGpu;
    RunResult got = RunOnMesh(job, layout);
    ExpectNear(got, want, 1e-3, 1e-2, what);
    EXPECT_EQ(CountsOf(got, layout), CountsOf(want, layout)) << what;
    if (layout.tp > 1) continue;  // NCCL sums the products
    RunResult again = RunOnMesh(job, layout);
    EXPECT_EQ(again.losses, got.losses) << what << ": another run has other bits";
  }
  unsetenv("WEFT_TUNE");
}
std::vector<const char*> Families() {
  std::vector<const char*> families(std::begin(kFamilies), std::end(kFamilies));
  families.push_back("marian");
  return families;
}
INSTANTIATE_TEST_SUITE_P(All, MultiGpu, testing::ValuesIn(Families()));

// A run's losses and norms, the bytes of this rank's state, and what copy engines did.
struct Gathered {
  RunResult result;
  std::map<std::string, std::vector<char>> state;
  int64_t copied = 0;  // calls
};

Gathered TrainWithGathers(const Job& job, Layout layout, GatherMode mode) {
  GpuWorld& world = TheGpuWorld();
  layout.device = kGpu;
  layout.gather = mode;
  world.context.set_numerics({.combine = layout.combine});
  DeviceMesh mesh(world.context, *world.groups, MeshOf(layout), world.groups->kinds());
  mesh.set_overlap(layout.overlap, layout.chunks);
  RankRun run(job, layout, world.context, mesh);
  Gathered got;
  for (int step = 1; step <= job.steps; step++) {
    StepMetrics m = run.Step(step);
    got.result.losses.push_back(m.loss);
    got.result.norms.push_back(m.grad_norm);
  }
  got.result.eval_sum = run.runner->Eval().first;
  for (const auto& [name, entry] : run.state.entries()) {
    if (!entry.saved) continue;
    Tensor host = entry.local.To(CpuRuntime());
    auto* bytes = static_cast<const char*>(host.data());
    got.state[name] = {bytes, bytes + host.bytes()};
  }
  for (int axis = 0; axis < mesh.shape().num_axes(); axis++)
    if (auto* group = dynamic_cast<NcclGroup*>(&mesh.Group(axis, kGpu)); group && group->copies())
      got.copied += group->copies()->made();
  return got;
}

// A model whose shards on two and on four ranks are equal, as memory that ranks map needs them.
TransformerConfig EvenLlama() {
  return FindFamily("llama")->configure({.layers = 3,
                                         .heads = 8,
                                         .kv_heads = 4,
                                         .dim = 256,
                                         .ffn = 512,
                                         .vocab = 512,
                                         .context = 64,
                                         .tie_embeddings = false});
}

// Gathers move bytes only. Gradients are sent as bf16, so that NCCL sums none of them, and it sums activations in the
// same order on both sides. The first two steps are issued at once and the rest are replayed. tests/multigpu.sh reads
// in NCCL's log of this program that copy engines ran.
TEST(MultiGpuCopies, CopiedGathersGiveTheBitsOfKernels) {
  setenv("WEFT_TUNE", "0", 1);  // choices by timing could differ between runs
  int ranks = TheGpuWorld().bootstrap.world_size();
  std::vector<Layout> layouts;
  for (int64_t micro : {0, 1})
    for (bool regather : {true, false})
      layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .micro_batch = micro, .regather = regather});
  layouts.push_back({.tp = ranks, .sequence_parallel = true});
  layouts.push_back({.dp = ranks, .fsdp = Fsdp::kGradients});  // copy engines make its exchanges only
  if (ranks == 4) {
    layouts.push_back({.dp = 2, .fsdp = Fsdp::kFull, .replicate = 2});
    layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull});
  }
  Job job{.model = EvenLlama(),
          .precision = {DType::kBF16, DType::kF32, DType::kF32, DType::kBF16},
          .global_batch = 8,
          .steps = 40};
  for (const Layout& layout : layouts) {
    std::string what = Describe(layout);
    job.precision.compute = layout.tp > 1 ? DType::kF32 : DType::kBF16;  // kernels round sums of bf16 at each rank
    Gathered want = TrainWithGathers(job, layout, GatherMode::kKernels);
    EXPECT_EQ(want.copied, 0) << what;
    for (int again = 0; again < 2; again++) {  // windows and communicators come and go
      Gathered got = TrainWithGathers(job, layout, GatherMode::kCopy);
      EXPECT_EQ(got.result.losses, want.result.losses) << what;
      EXPECT_EQ(got.result.norms, want.result.norms) << what;
      EXPECT_EQ(got.result.eval_sum, want.result.eval_sum) << what;
      EXPECT_TRUE(got.state == want.state) << what << ": other weights or moments";
      EXPECT_GT(got.copied, 0) << what;
    }
    if (TheGpuWorld().bootstrap.rank() == 0)
      fmt::print("shown: {}: {} steps with copied gathers have the bits of those by kernels\n", what, job.steps);
  }
  unsetenv("WEFT_TUNE");
}

// Sums of activations in bf16 are rounded once, and by kernels at each rank: they may be neighbours, 2^-8 apart, in
// each of 20 steps. The order in which ranks add is fixed, so that a run repeats bit for bit.
TEST(MultiGpuCopies, ExchangedSumsGiveTheLossesOfKernels) {
  setenv("WEFT_TUNE", "0", 1);  // choices by timing could differ between runs
  int ranks = TheGpuWorld().bootstrap.world_size();
  Job job{.model = EvenLlama(), .precision = {DType::kBF16, DType::kF32, DType::kBF16}, .global_batch = 8, .steps = 20};
  std::vector<Layout> layouts;
  for (OverlapMode overlap : {OverlapMode::kFill, OverlapMode::kHalves})
    layouts.push_back({.tp = ranks, .sequence_parallel = true, .overlap = overlap});
  layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull});
  if (ranks == 4) layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull});
  for (const Layout& layout : layouts) {
    std::string what = Describe(layout);
    RunResult want = TrainWithGathers(job, layout, GatherMode::kKernels).result;
    Gathered got = TrainWithGathers(job, layout, GatherMode::kCopy);
    EXPECT_GT(got.copied, 0) << what;
    ASSERT_EQ(got.result.losses.size(), want.losses.size()) << what;
    for (size_t i = 0; i < want.losses.size(); i++)
      EXPECT_LE(std::abs(got.result.losses[i] - want.losses[i]), 1e-2 * want.losses[i]) << what << ", step " << i + 1;
    Gathered again = TrainWithGathers(job, layout, GatherMode::kCopy);
    EXPECT_EQ(again.result.losses, got.result.losses) << what;
    EXPECT_TRUE(again.state == got.state) << what << ": other weights or moments";
  }
  unsetenv("WEFT_TUNE");
}

// Sums are in another order than those of rings. In bf16 a sum may round to a neighbour, 2^-8 apart, in each of 20
// steps. The other laws have models with uneven shards, for which ranks cannot map the same memory. tests/multigpu.sh
// reads in NCCL's log of this program that each kind of symmetric kernel ran.
TEST(MultiGpuSymmetric, GivesTheLossesOfRings) {
  int ranks = TheGpuWorld().bootstrap.world_size();
  Job job{.model = EvenLlama(), .precision = {DType::kF32, DType::kF32, DType::kF32}, .global_batch = 8, .steps = 20};
  std::vector<Layout> layouts = {{.tp = ranks}};
  for (OverlapMode overlap : {OverlapMode::kAuto, OverlapMode::kFill, OverlapMode::kHalves, OverlapMode::kChunks}) {
    layouts.push_back({.tp = ranks, .sequence_parallel = true, .overlap = overlap});
    layouts.back().chunks = overlap == OverlapMode::kChunks ? 2 : 0;
    layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .overlap = overlap});
  }
  layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .overlap = OverlapMode::kHalves, .gather = GatherMode::kCopy});
  if (ranks == 4) layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull});
  std::vector<std::pair<Layout, bool>> runs;  // whether in bf16
  for (const Layout& layout : layouts) {
    runs.emplace_back(layout, false);
    if (layout.overlap == OverlapMode::kAuto) runs.emplace_back(layout, true);
  }
  for (auto [layout, bf16] : runs) {
    DType type = bf16 ? DType::kBF16 : DType::kF32;
    job.precision = {type, DType::kF32, type};
    double tolerance = bf16 ? 1e-2 : 1e-5;
    layout.device = kGpu;
    RunResult results[2];
    for (bool symmetric : {false, true}) {
      layout.symmetric_memory = symmetric;
      results[symmetric] = RunOnMesh(job, layout);
    }
    ASSERT_EQ(results[0].losses.size(), size_t(job.steps));
    ASSERT_EQ(results[1].losses.size(), size_t(job.steps));
    for (size_t i = 0; i < results[0].losses.size(); i++)
      EXPECT_LE(std::abs(results[1].losses[i] - results[0].losses[i]), tolerance * results[0].losses[i])
          << Describe(layout) << " " << Name(type) << ", step " << i + 1;
  }
}

// Returns the number of products in a layout's step.
int64_t ProductsOf(const Job& job, const Layout& layout) {
  GpuWorld& world = TheGpuWorld();
  world.context.set_numerics({.combine = layout.combine});
  TrainingStep training(job.model, OptionsOf(job, layout));
  StepPlans plans = training.Compile(RuntimeOf(world.context, SharedMesh(layout), layout.device));
  return std::ranges::count_if(plans.step.steps, [](const Step& step) { return step.node->op == Op::kEinsum; });
}

// Weights are joined before they are gathered, and their gradients' products read parts of joined values. In bf16 the
// gradient of an operand is rounded once instead of once per product, 2^-8 apart, in each of 20 steps.
TEST(MultiGpuCombine, GivesTheLossesOfSingleProducts) {
  int ranks = TheGpuWorld().bootstrap.world_size();
  Job job{.model = EvenLlama(), .global_batch = 8, .steps = 20};
  std::vector<Layout> layouts{{.dp = ranks, .fsdp = Fsdp::kFull},
                              {.dp = ranks, .fsdp = Fsdp::kFull, .regather = false}};
  for (OverlapMode overlap : {OverlapMode::kFill, OverlapMode::kHalves, OverlapMode::kChunks}) {
    layouts.push_back({.tp = ranks, .sequence_parallel = true, .overlap = overlap, .copies = true});
    layouts.back().chunks = overlap == OverlapMode::kChunks ? 2 : 0;
  }
  layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .gather = GatherMode::kCopy});
  if (ranks == 4) layouts.push_back({.dp = 2, .tp = 2, .sequence_parallel = true, .fsdp = Fsdp::kFull});
  Layout halves{.sequence_parallel = true, .overlap = OverlapMode::kHalves, .symmetric_memory = true};
  halves.tp = ranks;
  layouts.push_back(halves);
  halves.dp = halves.tp = 2, halves.fsdp = Fsdp::kFull;
  if (ranks == 4) layouts.push_back(halves);
  for (DType type : {DType::kF32, DType::kBF16})
    for (Layout layout : layouts) {
      job.precision = {type, DType::kF32, DType::kF32};
      layout.device = kGpu;
      std::string what = fmt::format("{} {}", Describe(layout), Name(type));
      RunResult results[2];
      int64_t products[2];
      for (bool combine : {false, true}) {
        layout.combine = combine;
        results[combine] = RunOnMesh(job, layout);
        products[combine] = ProductsOf(job, layout);
      }
      EXPECT_LT(products[1], products[0]) << what;
      ExpectNear(results[1], results[0], type == DType::kBF16 ? 1e-2 : 1e-5, type == DType::kBF16 ? 0.1 : 1e-3, what);
    }
}

// Sums of small integers are exact in any order.
TEST(MultiGpuGroups, CollectivesGiveTheBitsOfTheHost) {
  GpuWorld& world = TheGpuWorld();
  DeviceMesh mesh(world.context, *world.groups, {{"x"}, {world.bootstrap.world_size()}}, world.groups->kinds());
  StreamedDevice& device = *StreamsOf(world.context.device(kGpu));
  int calls = test::CheckStreamCases(device, mesh.World(), mesh.World(kGpu), test::Values::kWhole);
  if (world.bootstrap.rank() == 0) fmt::print("shown: {} calls of NCCL have the bits of Gloo's\n", calls);
}

TEST(MultiGpuGroups, SumsWithAWireAddRoundedTermsInRankOrder) {
  GpuWorld& world = TheGpuWorld();
  DeviceMesh mesh(world.context, *world.groups, {{"x"}, {world.bootstrap.world_size()}}, world.groups->kinds());
  int ran = test::CheckWireRows(mesh, world.context, kGpu, /*plain=*/false);
  if (world.bootstrap.rank() == 0) fmt::print("shown: {} sums with a wire have the bits of the law\n", ran);
}

}  // namespace
}  // namespace weft
