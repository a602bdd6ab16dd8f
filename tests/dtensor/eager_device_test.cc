// DTensors of a device next to those of the CPU, on one mesh. In every placement, what a scope of the device creates,
// moves and computes equals what a scope of the CPU does. The device is a double with the CPU's kernels. With
// WEFT_TEST_DEVICE=cuda it is a GPU that the ranks share.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <string_view>

#include "double/group_double.h"
#include "double/kernels_double.h"
#include "dtensor/dtensor_testing.h"
#include "error_of.h"
#include "support/staged_group.h"
#include "weft/core/compile/eager.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/kernels/common/cuda_library.h"
#include "weft/parallel/dtensor/axis_collectives.h"
#include "weft/parallel/dtensor/dtensor.h"
#include "weft/parallel/dtensor/factories.h"

namespace weft {
namespace {

using test::LargestDifference;

constexpr DeviceKind kDevice = DeviceKind::kCuda;
const std::vector<int> kMesh{2, 2};

bool OnGpu() {
  const char* name = std::getenv("WEFT_TEST_DEVICE");
  return name && std::string_view(name) == "cuda";
}
// The double runs the CPU's kernels, so the results are bit-equal. A GPU sums at most 30 terms of size 1 in another
// order.
double Tolerance() { return OnGpu() ? 1e-13 : 0; }

void RegisterCpu(Context& context) {
  RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
  RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
}

// Runs the body on a mesh with groups for the CPU and the device.
void OnDeviceMesh(const test::Body& body) {
  MeshShape shape = test::MeshOf(kMesh);
  if (!OnGpu())
    return test::OnDoubles(shape.num_ranks(), {.most_us = 20}, [&](test::DoubleRank& rank) {
      RegisterCpu(rank.context);
      test::RegisterDoubleKernels(rank.context);
      DeviceMesh mesh(rank.context, rank.groups, shape, rank.groups.kinds());
      body({rank.context, mesh});
    });
  weft::RunRanks(shape.num_ranks(), [&](Context& context, GroupFactory& host) {
    RegisterCpu(context);
    if (absl::Status s = OpenCuda(context, 0); !s.ok()) throw Error(std::string(s.message()));
    RegisterCollectives(context.kernels(kDevice), kDevice);
    StagedGroupFactory groups(host, *StreamsOf(context.device(kDevice)));
    DeviceMesh mesh(context, groups, shape, groups.kinds());
    body({context, mesh});
  });
}

// Runs fn() in a scope of the CPU and in one of the device. The result must lie on the scope's device, and both results
// must be equal.
void ExpectSameOnDevice(test::Rank rank, const std::string& what, const std::function<Tensor()>& fn) {
  auto in_scope = [&](Device device) {
    DefaultDeviceScope scope(device);
    EagerScope eager(rank.context, rank.mesh, {.seed = 5});
    Tensor result = fn();
    EXPECT_EQ(result.device(), device) << what;
    return result.To(CpuRuntime());
  };
  Tensor want = in_scope({}), got = in_scope(rank.context.device(kDevice).device());
  EXPECT_LE(LargestDifference(got, want), Tolerance()) << what;
}

// Even, uneven, and fewer elements than ranks.
const std::vector<Shape> kShapes{{4, 6}, {5, 3}, {1, 2}};

void ForEach(const std::function<void(test::Rank, const Tensor&, const Sharding&, const std::string&)>& law) {
  OnDeviceMesh([&](test::Rank rank) {
    for (const Shape& shape : kShapes)
      for (const Sharding& s : test::EveryPlacement(2))
        law(rank, test::Draw(shape, 3), s, fmt::format("{} {}", ToString(shape), ToString(s)));
  });
}

TEST(EagerDevice, WhatIsDistributedComesBack) {
  ForEach([](test::Rank rank, const Tensor& global, const Sharding& s, const std::string& what) {
    ExpectSameOnDevice(rank, what, [&] { return DistributeTensor(global, rank.mesh, s).FullTensor(); });
    ExpectSameOnDevice(rank, what, [&] { return DistributeTensor(global, rank.mesh, s).ToLocal(); });
    if (s.HasPartial()) return;
    Tensor local = test::LocalOf(global, s, rank.mesh);
    ExpectSameOnDevice(rank, what,
                       [&] { return DTensor::FromLocal(local, rank.mesh, s, global.shape()).FullTensor(); });
  });
}

TEST(EagerDevice, EveryPlacementLeadsToEveryOther) {
  ForEach([](test::Rank rank, const Tensor& global, const Sharding& from, const std::string& what) {
    for (const Sharding& to : test::EveryPlacement(2))
      ExpectSameOnDevice(rank, what + " to " + ToString(to),
                         [&] { return DistributeTensor(global, rank.mesh, from).Redistribute(to).FullTensor(); });
  });
}

TEST(EagerDevice, OpsAndGradientsAreThoseOfTheCpu) {
  ForEach([](test::Rank rank, const Tensor& global, const Sharding& s, const std::string& what) {
    Tensor other = test::Draw({global.shape()[1], 5}, 4);
    for (bool gradient : {false, true})
      ExpectSameOnDevice(rank, what, [&] {
        DTensor x = DistributeTensor(global, rank.mesh, s, {.requires_grad = true});
        DTensor w = DistributeTensor(other, rank.mesh, {Replicate(), Replicate()});
        Var y = Scale(Relu(Einsum("bi,io->bo", x, w)), 0.5);
        return ValueOf(gradient ? Grad(SumAll(y * y), {x})[0] : y);
      });
  });
}

TEST(EagerDevice, FactoriesMakeTheirTensorsThere) {
  ForEach([](test::Rank rank, const Tensor& global, const Sharding& s, const std::string& what) {
    const Shape& shape = global.shape();
    const std::function<DTensor()> makes[] = {[&] { return Ones(shape, rank.mesh, s); },
                                              [&] { return Full(shape, 2.5, rank.mesh, s, {.dtype = DType::kF64}); },
                                              [&] { return Rand(shape, rank.mesh, s, {.dtype = DType::kF64}); },
                                              [&] { return Randn(shape, rank.mesh, s, {.dtype = DType::kF64}); }};
    for (const auto& make : makes) ExpectSameOnDevice(rank, what, [&] { return make().FullTensor(); });
    ExpectSameOnDevice(rank, what, [&] { return Arange(shape[0], rank.mesh, {Shard(0), Replicate()}).FullTensor(); });
    DefaultDeviceScope scope(rank.context.device(kDevice).device());
    EagerScope eager(rank.context, rank.mesh);
    EXPECT_EQ(Empty(shape, rank.mesh, s).ToLocal().device().kind, kDevice);
  });
}

TEST(EagerDevice, FromLocalRefusesATensorElsewhere) {
  OnDeviceMesh([](test::Rank rank) {
    EagerBuilder eager({&rank.context, &rank.mesh, rank.mesh.shape(), rank.mesh.coords(), kDevice}, {});
    Tensor host = Tensor::Zeros(DType::kF32, {2});
    std::string error = test::ErrorOf([&] { eager.FromLocal(host, {2}, {Replicate(), Replicate()}); });
    EXPECT_NE(error.find("expected a tensor on cuda, where this program runs, got one on cpu"), std::string::npos)
        << error;
  });
}

// The tensor's device selects the group, so callers name no backend. Scopes of both devices are open at once.
TEST(EagerDevice, OneCallServesTensorsOfBothDevices) {
  OnDeviceMesh([](test::Rank rank) {
    Tensor host = test::Draw({3, 2}, uint64_t(rank.mesh.rank()) + 1);
    DeviceRuntime& device = rank.context.device(kDevice);
    for (const char* axis : {"x", "y"}) {
      auto sum = [&](const Tensor& x) { return collectives::AllReduce(x, rank.mesh, axis); };
      Tensor want = sum(host), got = sum(host.To(device));
      EXPECT_EQ(got.device(), device.device());
      EXPECT_EQ(LargestDifference(got.To(CpuRuntime()), want), 0) << axis;
    }
    EagerScope on_cpu(rank.context, rank.mesh);
    DTensor x = DistributeTensor(host, rank.mesh, {Shard(0), Replicate()});
    DefaultDeviceScope scope(device.device());
    EagerScope on_device(rank.context, rank.mesh);
    DTensor y = DistributeTensor(x.FullTensor(), rank.mesh, {Shard(0), Replicate()});
    EXPECT_EQ(LargestDifference(y.FullTensor().To(CpuRuntime()), x.FullTensor()), 0);
    try {
      Exp(Var(x));
      ADD_FAILURE() << "a tensor of the CPU in a scope of the device";
    } catch (const Error& e) {
      std::string expected = fmt::format("which run on {} of x=2 x y=2", ToString(device.device()));
      EXPECT_NE(std::string(e.what()).find(expected), std::string::npos) << e.what();
    }
  });
}

// So do collectives on DTensors, by the name of an axis.
TEST(EagerDevice, CollectivesOnDTensorsAreThoseOfTheCpu) {
  OnDeviceMesh([](test::Rank rank) {
    Tensor full = test::Draw({5, 6}, 4);
    for (int axis : {0, 1}) {
      const std::string& name = rank.mesh.shape().names[size_t(axis)];
      auto in = [&](const Placement& p) {
        std::vector<Placement> placements(2, Replicate());
        placements[size_t(axis)] = p;
        return DistributeTensor(full, rank.mesh, {Replicate(), Replicate()}).Redistribute(placements);
      };
      ExpectSameOnDevice(rank, "AllReduce on " + name,
                         [&] { return collectives::AllReduce(in(Partial()), name).ToLocal(); });
      ExpectSameOnDevice(rank, "AllGather on " + name,
                         [&] { return collectives::AllGather(in(Shard(0)), name).ToLocal(); });
      ExpectSameOnDevice(rank, "ReduceScatter on " + name,
                         [&] { return collectives::ReduceScatter(in(Partial()), name, 1).ToLocal(); });
      ExpectSameOnDevice(rank, "AllToAll on " + name,
                         [&] { return collectives::AllToAll(in(Shard(0)), name, 1).ToLocal(); });
    }
  });
}

// A broadcast uses the group of the tensor's device, so the ranks must agree on that device.
TEST(EagerDevice, RanksThatPassTensorsOfOtherDevicesAreNamed) {
  std::string text;
  try {
    OnDeviceMesh([](test::Rank rank) {
      EagerScope eager(rank.context, rank.mesh);
      Tensor host = test::Draw({3, 2}, 1);
      bool other = rank.mesh.rank() == 1;
      DistributeTensor(other ? host.To(rank.context.device(kDevice)) : host, rank.mesh, {Shard(0), Replicate()});
    });
  } catch (const Error& e) {
    text = e.what();
  }
  EXPECT_NE(text.find("expected a tensor on cpu as on rank 0, whose values are taken, got one on cuda on rank 1 "),
            std::string::npos)
      << text;
}

}  // namespace
}  // namespace weft
