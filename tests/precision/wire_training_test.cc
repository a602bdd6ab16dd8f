// precision.wire: bf16 in training. Each step has the bits of precision.wire: reduce, with two extra roundings: every
// term of a gradient just before it is summed over ranks, and the result of each all-reduce.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <mutex>
#include <optional>
#include <vector>

#include "share.h"
#include "support/rank_run.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using namespace testing_;

// Replaces the sums of gradients over ranks in a run without a wire. It makes these sums itself, in groups of its own.
// No axis here splits the model, so these are all sums of more than two elements: losses and norms have at most two.
class RoundedSums {
 public:
  RoundedSums(Context& context, GroupFactory& groups, const MeshShape& shape) : beside_(context, groups, shape) {}

  // Returns whether the run must make the call itself.
  bool operator()(const ProcessGroup& group, const Collective& call) {
    bool sums = call.op == CollectiveOp::kAllReduce || call.op == CollectiveOp::kReduceScatter;
    int64_t elements = InputBytes(call, group.size()) / int64_t(sizeof(float));
    if (!sums || call.dtype != DType::kF32 || elements <= 2) return true;
    auto* in = static_cast<const float*>(call.in);
    std::vector<float> terms(in, in + elements), sizes = terms, rounded = terms;
    for (float& x : sizes) x = std::abs(x);
    for (float& x : rounded) x = float(BF16(x));
    std::vector<float> exact = Sum(group, call, terms), size = Sum(group, call, sizes), sum = Sum(group, call, rounded);
    bool twice = call.op == CollectiveOp::kAllReduce;
    auto* out = static_cast<float*>(call.out);
    for (size_t i = 0; i < sum.size(); i++) {
      out[i] = twice ? float(BF16(sum[i])) : sum[i];
      Check(out[i], exact[i], size[i], twice);
    }
    made_++;
    return false;
  }
  int made() const { return made_; }

 private:
  std::vector<float> Sum(const ProcessGroup& group, Collective call, const std::vector<float>& terms) {
    std::vector<float> sum(static_cast<size_t>(call.count));
    call.in = terms.data();
    call.out = sum.data();
    beside_.Group(group.name()).Run(call);
    return sum;
  }
  // Checks the bound from the documentation: half a unit in the last place of bf16, relative to the sum of the terms'
  // magnitudes, once or twice, plus the roundings of f32. Padding may contain anything.
  static void Check(float got, float want, float size, bool twice) {
    if (!std::isfinite(want) || !std::isfinite(size)) return;
    double each = twice ? (1 + 0x1p-8) * (1 + 0x1p-8) - 1 : 0x1p-8;
    EXPECT_LE(std::abs(double(got) - double(want)), (each + 1e-6) * double(size) + 0x1p-133);
  }

  DeviceMesh beside_;
  int made_ = 0;
};

using Values = std::map<std::string, std::vector<float>>;  // a rank's part of each parameter

// Returns the values without padding, which is undefined.
std::vector<float> Held(const TensorView& view) {
  std::vector<float> values;
  for (int64_t i = 0; i < view.NumElements(); i++) {
    int64_t rest = i, at = 0;
    for (int d = view.rank - 1; d >= 0; d--) {
      at += rest % view.dim(d).extent * view.dim(d).stride;
      rest /= view.dim(d).extent;
    }
    values.push_back(view.as<const float>()[at]);
  }
  return values;
}

struct Trained {
  std::vector<double> losses, norms;
  std::vector<Values> parameters;  // by rank
  int rounded = 0;                 // sums that were replaced on rank 0
  bool operator==(const Trained& o) const {
    return losses == o.losses && norms == o.norms && parameters == o.parameters;
  }
};

Trained TrainOn(Job job, const Layout& layout, std::optional<DType> wire, bool emulate = false) {
  job.precision.wire = wire;
  Trained trained;
  trained.parameters.resize(size_t(MeshOf(layout).num_ranks()));
  std::mutex mutex;
  RunRanks(MeshOf(layout).num_ranks(), [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, MeshOf(layout));
    RoundedSums sums(context, groups, MeshOf(layout));
    RankRun run(job, layout, context, mesh);
    if (emulate) mesh.set_call_filter([&](const ProcessGroup& group, Collective& call) { return sums(group, call); });
    std::vector<double> losses, norms;
    for (int step = 1; step <= job.steps; step++) {
      StepMetrics m = run.Step(step);
      losses.push_back(m.loss);
      norms.push_back(m.grad_norm);
    }
    std::lock_guard lock(mutex);
    for (const Parameter* p : run.training.model().Parameters())
      trained.parameters[size_t(context.rank())][p->path()] = Held(run.state.View(p->path()));
    if (context.rank() == 0) {
      trained.losses = losses;
      trained.norms = norms;
      trained.rounded = sums.made();
    }
  });
  return trained;
}

Job JobOf(const char* family, DType compute = DType::kF32) {
  return {.model = Tiny(family), .precision = {compute, DType::kF32, DType::kF32}, .steps = 3};
}

struct Param {
  const char* family;
  DType compute;
  Layout layout;
};
std::string ParamName(const testing::TestParamInfo<Param>& p) {
  return fmt::format("{}_{}_{}", p.param.family, Name(p.param.compute), Describe(p.param.layout));
}
void PrintTo(const Param& p, std::ostream* out) { *out << p.family << " " << Describe(p.layout); }

// Layouts that split only the batch. All their f32 sums over ranks are of gradients, losses or norms.
std::vector<Param> DataParallel() {
  std::vector<Param> all;
  for (const char* family : {"gpt2", "llama"})
    for (DType compute : {DType::kF32, DType::kBF16})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        for (int64_t micro : {0, 1}) {
          for (int dp : {2, 3}) all.push_back({family, compute, {.dp = dp, .fsdp = fsdp, .micro_batch = micro}});
          all.push_back({family, compute, {.dp = 2, .fsdp = fsdp, .micro_batch = micro, .replicate = 2}});
        }
  for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret})
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull})
      all.push_back({"gpt2", DType::kF32, {.dp = 2, .fsdp = fsdp, .micro_batch = 1, .executor = executor}});
  return all;
}

class WireTraining : public testing::TestWithParam<Param> {};

TEST_P(WireTraining, IsTheRunWhoseGradientsAreRounded) {
  auto [family, compute, layout] = GetParam();
  Job job = JobOf(family, compute);
  Trained wired = TrainOn(job, layout, DType::kBF16), rounded = TrainOn(job, layout, {}, /*emulate=*/true);
  EXPECT_EQ(wired.losses, rounded.losses);
  EXPECT_EQ(wired.norms, rounded.norms);
  EXPECT_TRUE(wired.parameters == rounded.parameters);
  EXPECT_GE(rounded.rounded, job.steps * int(wired.parameters[0].size()));
  EXPECT_TRUE(wired == TrainOn(job, layout, DType::kBF16)) << "another run has other bits";
  EXPECT_NE(wired.norms, TrainOn(job, layout, {}).norms) << "nothing was rounded";
  if (layout.fsdp != Fsdp::kNone) return;
  for (const Values& mine : wired.parameters) EXPECT_TRUE(mine == wired.parameters[0]) << "ranks differ";
}
INSTANTIATE_TEST_SUITE_P(All, WireTraining, testing::ValuesIn(test::ShareOf(DataParallel())), ParamName);

// If tp splits the model too, replicas have equal bits, and so have repeated runs.
TEST(WireTraining, IsTheSameOnReplicasOfATensorParallelModel) {
  for (bool sp : {false, true}) {
    Layout layout{.dp = 2, .tp = 2, .sequence_parallel = sp};
    Trained once = TrainOn(JobOf("llama"), layout, DType::kBF16);
    EXPECT_TRUE(once == TrainOn(JobOf("llama"), layout, DType::kBF16));
    for (size_t tp = 0; tp < 2; tp++) EXPECT_TRUE(once.parameters[tp] == once.parameters[tp + 2]) << tp;
    EXPECT_NE(once.norms, TrainOn(JobOf("llama"), layout, {}).norms);
  }
}

TEST(WireTraining, ChangesNothingOnOneRank) {
  for (const char* family : kFamilies)
    EXPECT_TRUE(TrainOn(JobOf(family), {.micro_batch = 2}, DType::kBF16) ==
                TrainOn(JobOf(family), {.micro_batch = 2}, {}))
        << family;
}

}  // namespace
}  // namespace weft
