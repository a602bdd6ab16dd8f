// Training under mpirun on four ranks, where Gloo moves the bytes. The losses agree with one in-process rank, and the
// bytes with the printed plan.
#include <gtest/gtest.h>

#include <cmath>
#include <memory>
#include <optional>

#include "dist/gloo_traffic.h"
#include "dist/mpi_run.h"
#include "share.h"
#include "support/training.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/dtensor/move.h"
#include "weft/parallel/step/training_step.h"

namespace weft {
namespace {

using namespace testing_;

struct World {
  Context context{test::TheBootstrap().rank(), test::TheBootstrap().world_size()};
  std::unique_ptr<GroupFactory> groups = MakeGroupFactory(test::TheBootstrap());
  World() {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
  }
};

CollectiveOp KindOf(Op op) {
  switch (op) {
    case Op::kAllReduce:
      return CollectiveOp::kAllReduce;
    case Op::kAllGather:
      return CollectiveOp::kAllGather;
    case Op::kReduceScatter:
      return CollectiveOp::kReduceScatter;
    default:
      EXPECT_EQ(op, Op::kAllToAll) << Name(op);
      return CollectiveOp::kAllToAll;
  }
}

void Compare(const Job& job, const Layout& layout, double tolerance) {
  World world;
  DeviceMesh mesh(world.context, *world.groups, MeshOf(layout));
  RunResult got = RunOnRank(job, layout, world.context, mesh), want = Train(job, {});
  for (size_t i = 0; i < want.losses.size(); i++)
    ASSERT_LE(std::abs(got.losses[i] - want.losses[i]), tolerance * std::abs(want.losses[i]))
        << Describe(layout) << " step " << i + 1;

  // Per axis and kind, Gloo's groups get exactly the calls and bytes of the plan, and move the bytes that these calls
  // need.
  StepOptions o = OptionsOf(job, layout);
  TrainingStep step(job.model, o);
  std::map<std::pair<int, std::string>, CallCount> planned;
  auto add = [&](const LocalProgram& program, int times) {
    for (const CommLine& l : CommPlan(program, times)) {
      CallCount& c = planned[{l.axis, Name(l.op)}];
      c.calls += job.steps * l.times;
      c.bytes += job.steps * l.times * l.bytes;
      test::Traffic moved = test::TrafficOf(KindOf(l.op), l.bytes, int64_t(SizeOf(l.dtype)),
                                            mesh.coords()[size_t(l.axis)], mesh.shape().sizes[size_t(l.axis)]);
      c.sent += job.steps * l.times * moved.sent;
      c.received += job.steps * l.times * moved.received;
    }
  };
  if (step.accumulate()) add(*step.accumulate(), o.micro_steps - 1);
  add(step.step(), 1);
  EXPECT_EQ(got.counts, planned) << Describe(layout);
}

// f64 differs only by the order of summation. f32 has the tolerance of layouts_test.
TEST(MpiTraining, TwoByTwoEqualsOneRank) {
  if (test::TheBootstrap().world_size() != 4) GTEST_SKIP() << "needs 4 ranks";
  for (bool gpt2 : {true, false})
    for (DType dtype : {DType::kF64, DType::kF32})
      for (bool sp : {false, true})
        for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull}) {
          Job job{gpt2 ? TinyGpt2() : TinyLlama(),
                  {dtype, dtype, dtype},
                  5,
                  std::max(5, 50 / test::Share()),
                  gpt2 ? 0.1 : 0.0};
          Compare(job, {.dp = 2, .tp = 2, .sequence_parallel = sp, .fsdp = fsdp, .micro_batch = sp ? 1 : 0},
                  dtype == DType::kF64 ? 1e-9 : 2e-6);
        }
}

// Copies of what dp ranks shard: 2 x 2 x 1 on four ranks, and 2 x 2 x 2 on eight.
TEST(MpiTraining, HybridEqualsOneRank) {
  int tp = test::TheBootstrap().world_size() / 4;
  for (DType dtype : {DType::kF64, DType::kF32}) {
    Job job{TinyGpt2(), {dtype, dtype, dtype}, 5, std::max(5, 20 / test::Share())};
    for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kFull})
      Compare(job, {.dp = 2, .tp = tp, .fsdp = fsdp, .micro_batch = 1, .replicate = 2},
              dtype == DType::kF64 ? 1e-9 : 2e-6);
  }
}

// A tensor moves to a mesh over some of the ranks and back, through Gloo.
TEST(MpiTraining, TensorsMoveBetweenMeshes) {
  World world;
  int ranks = world.context.world_size();
  DeviceMesh all(world.context, *world.groups, {{"x"}, {ranks}});
  DeviceMesh some(world.context, *world.groups, {{"y"}, {2}}, std::vector<int>{3, 1});
  EagerScope outer(world.context, all);
  DTensor whole = Randn({7, 5}, all, {Replicate()}, {.seed = 3}), x = whole.Redistribute({Shard(0)}), y;
  {
    std::optional<EagerScope> inner;
    if (some.has_this_rank()) inner.emplace(world.context, some);
    y = Redistribute(x, all, some, {Shard(1)}, all.World());
    EXPECT_EQ(bool(y), some.has_this_rank());
    if (y) {
      EXPECT_EQ(y.FullTensor().ToDoubles(), whole.ToLocal().ToDoubles());
    }
  }
  DTensor back = Redistribute(y, some, all, {Partial()}, all.World());
  EXPECT_EQ(back.FullTensor().ToDoubles(), whole.ToLocal().ToDoubles());
}

TEST(MpiTraining, EagerAndInterpretAgreeUnderGloo) {
  if (test::TheBootstrap().world_size() != 4) GTEST_SKIP() << "needs 4 ranks";
  for (ExecutorKind executor : {ExecutorKind::kEager, ExecutorKind::kInterpret}) {
    Job job{TinyGpt2(), {DType::kF64, DType::kF64, DType::kF64}, 5, 5};
    World world;
    DeviceMesh mesh(world.context, *world.groups, {{"dp", "tp"}, {2, 2}});
    RunResult got = RunOnRank(job, {.dp = 2, .tp = 2, .executor = executor}, world.context, mesh),
              want = Train(job, {});
    for (size_t i = 0; i < want.losses.size(); i++) EXPECT_NEAR(got.losses[i], want.losses[i], 1e-9 * want.losses[i]);
  }
}

}  // namespace
}  // namespace weft
