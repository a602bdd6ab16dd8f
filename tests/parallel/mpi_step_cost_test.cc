// Under mpirun a compiled step allocates nothing, neither in Weft nor in the parts of Gloo that it uses.
#include <gtest/gtest.h>

#include "dist/mpi_run.h"
#include "parallel/step_allocations.h"
#include "weft/core/runtime/context.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/standard/group_maker.h"
#include "weft/dist/start/bootstrap.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using namespace testing_;

TEST(MpiStepCost, CompiledAllocatesNothingAfterStepTwoUnderGloo) {
  ASSERT_EQ(test::TheBootstrap().world_size(), 4);
  for (bool gpt2 : {true, false})
    for (const Layout& layout : LayoutsOfFourRanks()) {
      Context context(test::TheBootstrap().rank(), 4);
      RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
      RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
      auto groups = MakeGroupFactory(test::TheBootstrap());
      DeviceMesh mesh(context, *groups, {{"dp", "tp"}, {layout.dp, layout.tp}});
      StepAllocations got = AllocationsAfterStepTwo({gpt2 ? TinyGpt2() : TinyLlama()}, layout, context, mesh);
      EXPECT_EQ(got.heap, 0) << Describe(layout) << " in " << got.steps << " steps of this rank";
      EXPECT_EQ(got.buffers, 0u) << Describe(layout);
    }
}

// Background calls reuse the slots and handles of earlier ones.
TEST(MpiStepCost, BackgroundCallsAllocateNothing) {
  Context context(test::TheBootstrap().rank(), 4);
  auto groups = MakeGroupFactory(test::TheBootstrap());
  DeviceMesh mesh(context, *groups, {{"x"}, {4}});
  std::vector<float> data(5000, 1.f), back(5000), received(5000);
  auto round = [&] {
    auto sum = [&] {
      return mesh.World().Start({.op = CollectiveOp::kAllReduce, .in = data.data(), .out = back.data(), .count = 5000});
    };
    Work first = sum(), second = sum(), third = sum();
    Work sent = mesh.World().Start(
        {.op = CollectiveOp::kSend, .in = data.data(), .count = 5000, .peer = (context.rank() + 1) % 4});
    mesh.World().Recv(received.data(), 5000, DType::kF32, (context.rank() + 3) % 4);
    for (const Work* work : {&first, &second, &third, &sent}) work->Wait();
  };
  round();
  long before = test::HeapAllocations();
  for (int i = 0; i < 50; i++) round();
  EXPECT_EQ(test::HeapAllocations() - before, 0);
}

}  // namespace
}  // namespace weft
