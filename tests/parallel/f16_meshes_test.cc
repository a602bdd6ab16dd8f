// Training in f16 skips the same updates on every mesh and for every micro-batch: gradients of parameters, whose sums
// depend on both, leave f16 nowhere. Left are activations and their gradients, whose last bits a mesh may change.
#include <gtest/gtest.h>

#include <array>
#include <cmath>
#include <mutex>
#include <random>
#include <utility>

#include "parallel/training.h"
#include "share.h"
#include "weft/core/compile/runtime.h"

namespace weft {
namespace {

using namespace testing_;

constexpr int kSteps = 40;
constexpr double kLargestF16 = 65504;

// ---- Kernels that note the largest magnitude of all that they write in f16. ----

std::array<KernelRow, size_t(kNumOps)> plain_rows;
thread_local double largest_written = 0;  // by this rank

template <size_t op>
void RunAndLook(const KernelCall& call) {
  plain_rows[op].run(call);
  for (const TensorView& out : call.out)
    if (out.dtype == DType::kF16 && out.NumElements() > 0) {
      ValueRange range = RangeOf(out);
      largest_written = std::max({largest_written, std::abs(range.low), std::abs(range.high)});
    }
}

template <size_t... ops>
void WatchKernels(KernelTable& table, std::index_sequence<ops...>) {
  static std::once_flag once;
  std::call_once(once, [&] {
    for (size_t op = 0; op < size_t(kNumOps); op++)
      if (table.Has(Op(op))) plain_rows[op] = table.Row(Op(op));
  });
  constexpr void (*kRun[])(const KernelCall&) = {&RunAndLook<ops>...};
  for (size_t op = 0; op < size_t(kNumOps); op++) {
    if (!table.Has(Op(op))) continue;
    KernelRow row = table.Row(Op(op));
    row.run = kRun[op];
    row.run_many = nullptr;
    table.Add(Op(op), row);
  }
}

struct Steps {
  std::vector<bool> skipped;
  std::vector<double> scales, largest;  // largest: over all ranks
};

Steps TrainWatched(const Job& job, const Layout& layout) {
  Steps steps;
  std::mutex mutex;
  OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
    WatchKernels(context.kernels(DeviceKind::kCpu), std::make_index_sequence<size_t(kNumOps)>());
    RankRun run(job, layout, context, mesh);
    for (int step = 1; step <= job.steps; step++) {
      largest_written = 0;
      StepMetrics m = run.Step(step);
      std::lock_guard lock(mutex);
      steps.largest.resize(size_t(job.steps));
      steps.largest[size_t(step - 1)] = std::max(steps.largest[size_t(step - 1)], largest_written);
      if (context.rank() != 0) continue;
      steps.skipped.push_back(!std::isfinite(m.grad_norm));
      steps.scales.push_back(*m.loss_scale);
    }
  });
  return steps;
}

// ---- Random runs. ----

class RandomRuns {
 public:
  explicit RandomRuns(uint64_t seed) : rng_(seed) {}

  Job NextJob() {
    TransformerConfig sizes{.layers = Pick(1, 2), .heads = Pick(2, 6)};
    const char* family = kFamilies[size_t(Pick(0, 2))];
    sizes.kv_heads = family == std::string("llama") && sizes.heads % 2 == 0 ? 2 : sizes.heads;
    sizes.dim = sizes.heads * 2 * Pick(1, 4);
    sizes.ffn = Pick(8, 60);
    sizes.vocab = Pick(11, 70);
    sizes.context = Pick(4, 12);
    sizes.dropout = Pick(0, 1) ? 0.1 : 0;
    sizes.tie_embeddings = Pick(0, 1) == 1;
    sizes.init_std = Pick(0, 1) ? 0.02 : 0.2;
    Job job{.model = FindFamily(family)->configure(sizes),
            .precision = {DType::kF16, DType::kF32, DType::kF32},
            .global_batch = Pick(2, 7),
            .steps = kSteps};
    job.loss_scale = {.initial = std::exp2(double(Pick(14, 22))), .growth_interval = 3};
    return job;
  }
  std::vector<Layout> NextLayouts() {
    auto micro = [&] { return Pick(0, 2); };
    auto fsdp = [&] { return Fsdp(Pick(0, 2)); };
    return {{.micro_batch = 1},
            {.dp = int(Pick(2, 3)), .fsdp = fsdp(), .micro_batch = micro()},
            {.tp = 2, .sequence_parallel = Pick(0, 1) == 1, .micro_batch = micro()},
            {.dp = 2, .tp = 2, .sequence_parallel = Pick(0, 1) == 1, .fsdp = fsdp(), .micro_batch = micro()}};
  }

 private:
  int64_t Pick(int64_t low, int64_t high) { return std::uniform_int_distribution<int64_t>(low, high)(rng_); }
  std::mt19937_64 rng_;
};

// Where two runs part, the one that did not skip was about to: it wrote a number within 0.2 % of the largest of f16.
TEST(F16Meshes, SkipTheSameUpdates) {
  const int jobs = std::max(2, 30 / test::Share());
  RandomRuns random(20);
  int runs = 0, skips = 0, parted = 0;
  for (int i = 0; i < jobs; i++) {
    Job job = random.NextJob();
    Steps one = TrainWatched(job, {});
    for (const Layout& layout : random.NextLayouts()) {
      Steps other = TrainWatched(job, layout);
      runs++;
      for (size_t step = 0; step < one.skipped.size(); step++) {
        skips += other.skipped[step];
        EXPECT_EQ(one.scales[step], other.scales[step]) << i << " " << Describe(layout) << " step " << step + 1;
        if (one.skipped[step] == other.skipped[step]) continue;
        parted++;
        double largest = one.skipped[step] ? other.largest[step] : one.largest[step];
        EXPECT_GE(largest, kLargestF16 * (1 - 0.002)) << "run " << i << " " << Describe(layout) << " parts in step "
                                                      << step + 1 << " at scale " << one.scales[step];
        break;  // from here on they are two runs
      }
    }
  }
  fmt::print("shown: f16 on {} meshes of {} runs, {} updates skipped; {} parted at the largest number of f16\n", runs,
             jobs, skips, parted);
  EXPECT_GT(skips, 2 * runs);
}

// ---- The law behind it. ----

// Gradients of parameters are sums: each is made in precision.reduce, and nowhere narrower first.
TEST(F16Meshes, NoGradientOfAParameterIsWidened) {
  for (const char* family : kFamilies)
    for (DType compute : {DType::kF16, DType::kBF16})
      for (auto [dp, tp] : {std::pair{1, 1}, {2, 2}})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
          for (int64_t micro : {0, 1}) {
            Job job{.model = Tiny(family), .precision = {compute, DType::kF32, DType::kF32}};
            Layout layout{.dp = dp, .tp = tp, .sequence_parallel = tp > 1, .fsdp = fsdp, .micro_batch = micro};
            TrainingStep step(job.model, OptionsOf(job, layout));
            std::vector<const Graph*> graphs{&step.step().graph};
            if (step.accumulate()) graphs.push_back(&step.accumulate()->graph);
            for (const Graph* graph : graphs)
              for (const auto& node : graph->nodes) {
                bool widens = node->op == Op::kCast && node->phase == Phase::kBackward &&
                              node->inputs[0].dtype() == compute && node->outputs[0].dtype == DType::kF32;
                EXPECT_FALSE(widens && node->attrs.IntOr("parameter_gradient", 0))
                    << family << " " << Describe(layout) << " " << (node->scope ? *node->scope : "") << " "
                    << ToString(node->outputs[0].global);
              }
          }
}

}  // namespace
}  // namespace weft
