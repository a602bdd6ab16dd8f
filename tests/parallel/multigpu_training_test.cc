// Training on as many GPUs as mpirun starts ranks, NCCL between them: losses against one rank of the CPU.
#include <gtest/gtest.h>

#include <cmath>

#include "dist/mpi_main.h"
#include "dist/stream_cases.h"
#include "parallel/training.h"
#include "weft/dist/group/nccl/nccl_library.h"
#include "weft/dist/group/standard/group_maker.h"

namespace weft {
namespace {

using namespace testing_;

constexpr DeviceKind kGpu = DeviceKind::kCuda;

// This rank with its GPU. NCCL first, for it sets what CUDA reads when it starts.
struct World {
  Bootstrap& bootstrap = test::TheBootstrap();
  Context context{bootstrap.rank(), bootstrap.world_size()};
  std::unique_ptr<FactoryTable> groups;

  World() {
    absl::Status nccl = NcclLibrary::Open(bootstrap.world_size(), true).status();
    WEFT_CHECK(nccl.ok(), std::string(nccl.message()));
    absl::Status opened = OpenCuda(context, bootstrap.local_rank());
    WEFT_CHECK(opened.ok(), std::string(opened.message()));
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    for (DeviceKind kind : {DeviceKind::kCpu, kGpu}) RegisterCollectives(context.kernels(kind), kind);
    groups = MakeGroupFactory(bootstrap, &context);
  }
};

// One for all tests: communicators take half a second.
World& TheWorld() {
  static auto* world = new World;  // never destroyed: MPI ends first
  return *world;
}

// Every way to put the ranks on axes, with each kind of sharding that they allow.
std::vector<Layout> LayoutsOf(int ranks) {
  std::vector<Layout> layouts;
  for (int dp = 1; dp <= ranks; dp++) {
    if (ranks % dp != 0) continue;
    int tp = ranks / dp;
    for (bool sp : {false, true})
      for (Fsdp fsdp : {Fsdp::kNone, Fsdp::kGradients, Fsdp::kFull})
        if ((tp > 1 || !sp) && (dp > 1 || fsdp == Fsdp::kNone))
          layouts.push_back({.dp = dp, .tp = tp, .sequence_parallel = sp, .fsdp = fsdp, .micro_batch = sp ? 1 : 0});
  }
  if (ranks == 4) layouts.push_back({.dp = 2, .fsdp = Fsdp::kFull, .micro_batch = 1, .replicate = 2});
  for (ExecutorKind executor : {ExecutorKind::kInterpret, ExecutorKind::kEager})
    layouts.push_back({.dp = ranks, .fsdp = Fsdp::kFull, .micro_batch = 1, .executor = executor});
  return layouts;
}

class MultiGpu : public testing::TestWithParam<const char*> {};

// NCCL adds in an order of its own: 1e-16 a sum of f64, 1e-7 of f32, over ten steps of Adam.
TEST_P(MultiGpu, LossesAreOneRanksOfTheCpu) {
  World& world = TheWorld();
  for (DType dtype : {DType::kF64, DType::kF32}) {
    Job job{.model = Tiny(GetParam()), .precision = {dtype, dtype, dtype}, .steps = 10};
    double tolerance = dtype == DType::kF64 ? 1e-9 : 1e-5;
    for (Layout layout : LayoutsOf(world.bootstrap.world_size())) {
      RunResult want = Train(job, {.micro_batch = layout.micro_batch});
      layout.device = kGpu;
      DeviceMesh mesh(world.context, *world.groups, MeshOf(layout), world.groups->kinds());
      RunResult got = RunOnRank(job, layout, world.context, mesh);
      std::string what = Describe(layout) + " " + Name(dtype);
      ASSERT_EQ(got.losses.size(), want.losses.size());
      for (size_t i = 0; i < want.losses.size(); i++) {
        EXPECT_LE(std::abs(got.losses[i] - want.losses[i]), tolerance * want.losses[i]) << what << ", step " << i + 1;
        EXPECT_LE(std::abs(got.norms[i] - want.norms[i]), 100 * tolerance * want.norms[i])
            << what << ", step " << i + 1;
      }
      EXPECT_LE(std::abs(got.eval_sum - want.eval_sum), tolerance * std::abs(want.eval_sum)) << what;
    }
  }
}
INSTANTIATE_TEST_SUITE_P(All, MultiGpu, testing::ValuesIn(kFamilies));

// Sums of small integers are exact in any order.
TEST(MultiGpuGroups, CollectivesGiveTheBitsOfTheHost) {
  World& world = TheWorld();
  DeviceMesh mesh(world.context, *world.groups, {{"x"}, {world.bootstrap.world_size()}}, world.groups->kinds());
  StreamedDevice& device = *StreamsOf(world.context.device(kGpu));
  int calls = test::CheckStreamCases(device, mesh.World(), mesh.World(kGpu), test::Values::kWhole);
  if (world.bootstrap.rank() == 0) fmt::print("shown: {} calls of NCCL have the bits of Gloo's\n", calls);
}

}  // namespace
}  // namespace weft
