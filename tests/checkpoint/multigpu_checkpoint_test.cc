// Checkpoints from and to as many GPUs as mpirun starts ranks, on any mesh over them.
#include <fmt/format.h>

#include "checkpoint/device_cases.h"
#include "dist/gpu_world.h"
#include "parallel/testing.h"
#include "weft/core/ops/ops.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/dtensor/dtensor.h"
#include "weft/parallel/dtensor/factories.h"

namespace weft {
namespace {

using namespace testing_;

std::vector<Layout> LayoutsOf(int ranks) {
  std::vector<Layout> layouts{{.dp = ranks, .fsdp = Fsdp::kFull, .micro_batch = 1},
                              {.dp = ranks, .fsdp = Fsdp::kGradients},
                              {.dp = 1, .tp = ranks, .sequence_parallel = true}};
  if (ranks % 2 == 0 && ranks > 2) {
    layouts.push_back({.dp = 2, .tp = ranks / 2, .fsdp = Fsdp::kFull});
    layouts.push_back({.dp = 2, .tp = ranks / 2});
  }
  return layouts;
}

// Returns rank 0's folder, which all ranks must see.
std::string SharedFolder(GpuWorld& world) {
  std::string mine = (std::filesystem::temp_directory_path() / fmt::format("weft_gpus_{}", ::getpid())).string();
  return world.bootstrap.AllGather(mine)[0];
}

// Random numbers depend on the seed, the path and the position of an element only.
TEST(MultiGpuCheckpoint, InitialStatesHaveTheBitsOfTheCpus) {
  GpuWorld& world = TheGpuWorld();
  for (const char* family : kFamilies)
    for (DType compute : {DType::kF32, DType::kBF16})
      for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
        Job job{.model = Tiny(family), .precision = {compute, DType::kF32, DType::kF32}};
        std::map<std::string, std::string> want;
        OnMesh(layout, [&](Context& context, DeviceMesh& mesh) {
          RankRun run(job, layout, context, mesh);
          if (context.rank() == world.bootstrap.rank()) want = test::BytesOf(test::OnHost(run.state));
        });
        layout.device = DeviceKind::kCuda;
        DeviceMesh mesh(world.context, *world.groups, MeshOf(layout), world.groups->kinds());
        RankRun run(job, layout, world.context, mesh);
        EXPECT_FALSE(want.empty());
        EXPECT_EQ(test::Differing(test::BytesOf(test::OnHost(run.state)), want), test::kNone)
            << family << " " << Describe(layout) << " " << Name(compute);
      }
}

// A mask depends on the seed, the step and the position of an element in the whole tensor only.
TEST(MultiGpuMasks, HaveTheBitsOfTheCpus) {
  GpuWorld& world = TheGpuWorld();
  Layout layout{.dp = 2, .tp = world.bootstrap.world_size() / 2};
  DeviceMesh mesh(world.context, *world.groups, MeshOf(layout), world.groups->kinds());
  for (DType dtype : {DType::kF32, DType::kBF16})
    for (const Sharding& placement : test::EveryPlacement(2)) {
      auto dropped = [&](Device device) {
        DefaultDeviceScope scope(device);
        EagerScope eager(world.context, mesh, {.seed = 5});
        EagerScope::Current()->BeginStep(6);
        return ValueOf(Dropout(Ones({7, 10}, mesh, placement, {.dtype = dtype}), 0.3)).To(CpuRuntime()).ToDoubles();
      };
      std::vector<double> want = dropped({}), got = dropped(world.context.device(DeviceKind::kCuda).device());
      EXPECT_EQ(got, want) << Name(dtype) << " " << ToString(placement);
      EXPECT_GT(std::ranges::count(want, 0.0), 0) << Name(dtype) << " " << ToString(placement);
    }
}

// NCCL sums in an order of its own, which costs 1e-16 per f64 sum over three steps of Adam.
TEST(MultiGpuCheckpoint, AnyMeshLoadsAnyMeshs) {
  GpuWorld& world = TheGpuWorld();
  Job job{.model = TinyLlama(), .precision = {DType::kF64, DType::kF64, DType::kF64}, .steps = 3};
  std::vector<Layout> layouts = LayoutsOf(world.bootstrap.world_size());
  std::string folder = SharedFolder(world);
  for (Layout from : layouts) {
    from.device = DeviceKind::kCuda;
    std::string run = folder + "/" + Describe(from), checkpoint = StepFolder(run + "/device", 1);
    {
      DeviceMesh mesh(world.context, *world.groups, MeshOf(from), world.groups->kinds());
      test::ExpectASaveIsOfItsStep(job, from, world.context, mesh, run);
    }
    double want = 0;
    OnMesh({}, [&](Context& context, DeviceMesh& mesh) {
      want = test::ExpectALoadIsTheHosts(job, {}, context, mesh, checkpoint);
    });
    for (Layout to : layouts) {
      to.device = DeviceKind::kCuda;
      DeviceMesh mesh(world.context, *world.groups, MeshOf(to), world.groups->kinds());
      double loss = test::ExpectALoadIsTheHosts(job, to, world.context, mesh, checkpoint);
      EXPECT_NEAR(loss, want, 1e-9 * want) << Describe(from) << " to " << Describe(to);
    }
  }
  world.bootstrap.AllGather("");  // no rank still reads
  if (world.bootstrap.rank() == 0) std::filesystem::remove_all(folder);
}

}  // namespace
}  // namespace weft
