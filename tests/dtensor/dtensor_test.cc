// DTensor's laws, over every placement on meshes of one and two axes, with even, uneven and empty shapes. A distributed
// tensor can be gathered back, every placement can change to every other, and factories, ops and gradients give the
// results of one rank.
#include "weft/parallel/dtensor/dtensor.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include "dtensor/dtensor_testing.h"
#include "parallel/testing.h"
#include "weft/core/base/shard.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"
#include "weft/parallel/dtensor/resized.h"

namespace weft {
namespace {

using test::LargestDifference;
using test::LocalOf;
using test::OnBareMesh;
using test::OnMesh;
using test::Rank;

// Returns all shardings with R, S(d) or a Partial on each axis. If two axes shard one dim, both orders are included.
std::vector<Sharding> AllShardings(int rank, int axes) {
  std::vector<Placement> one{Replicate(), Partial(), Partial(ReduceOp::kMax), Partial(ReduceOp::kMin)};
  for (int d = 0; d < rank; d++) one.push_back(Shard(d));
  std::vector<Sharding> all;
  for (const Placement& p : one) {
    if (axes == 1) {
      all.push_back({p});
      continue;
    }
    for (const Placement& q : one)
      if (p.kind != Placement::kPartial || q.kind != Placement::kPartial || p == q) all.push_back({p, q});
    if (p.kind == Placement::kShard) all.push_back({Shard(p.dim, 1), Shard(p.dim, 0)});
  }
  return all;
}

bool ChangesPartial(const Sharding& from, const Sharding& to) {
  for (int a = 0; a < from.num_axes(); a++)
    if (from[a].kind == Placement::kPartial && to[a].kind == Placement::kPartial && from[a].reduce != to[a].reduce)
      return true;
  return false;
}

// Even, uneven, fewer elements than ranks, and no elements.
const std::vector<Shape> kShapes{{12, 4}, {7, 5}, {1, 3}, {0, 3}};

class OnMeshes : public testing::TestWithParam<std::vector<int>> {
 protected:
  int axes() const { return int(GetParam().size()); }
  void ForEach(const std::function<void(Rank, const Tensor&, const Sharding&, const std::string&)>& law) const {
    OnMesh(GetParam(), [&](Rank rank) {
      for (const Shape& shape : kShapes)
        for (const Sharding& s : AllShardings(2, axes()))
          law(rank, test::Draw(shape, 3), s,
              fmt::format("{} {} on {}", ToString(shape), ToString(s), ToString(rank.mesh.shape())));
    });
  }
};
std::string MeshName(const testing::TestParamInfo<std::vector<int>>& info) {
  return fmt::format("mesh_{}", fmt::join(info.param, "x"));
}
INSTANTIATE_TEST_SUITE_P(All, OnMeshes,
                         testing::Values(std::vector{1}, std::vector{2}, std::vector{3}, std::vector{4},
                                         std::vector{2, 2}),
                         MeshName);

TEST_P(OnMeshes, WhatIsDistributedComesBack) {
  ForEach([](Rank rank, const Tensor& global, const Sharding& s, const std::string& what) {
    for (int source : {0, DistributeOptions::kOwn}) {
      DTensor x = DistributeTensor(global, rank.mesh, s, {.source = source});
      EXPECT_EQ(LargestDifference(x.FullTensor(), global), 0) << what;
      EXPECT_EQ(x.shape(), global.shape()) << what;
      if (x.placements().HasPartial()) continue;
      EXPECT_EQ(LargestDifference(x.ToLocal(), LocalOf(global, x.placements(), rank.mesh)), 0) << what;
    }
  });
}

TEST_P(OnMeshes, ALocalTensorComesBackAndMeansTheGlobalOne) {
  ForEach([](Rank rank, const Tensor& global, const Sharding& s, const std::string& what) {
    Tensor local = LocalOf(global, s, rank.mesh);
    DTensor x = DTensor::FromLocal(local, rank.mesh, s, global.shape());
    EXPECT_EQ(LargestDifference(x.ToLocal(), local), 0) << what;
    // 1e-13: at most four terms of size 1.
    EXPECT_LE(LargestDifference(x.FullTensor(), global), 1e-13) << what;
  });
}

TEST_P(OnMeshes, EveryPlacementLeadsToEveryOther) {
  ForEach([this](Rank rank, const Tensor& global, const Sharding& from, const std::string& what) {
    DTensor x = DTensor::FromLocal(LocalOf(global, from, rank.mesh), rank.mesh, from, global.shape());
    for (const Sharding& to : AllShardings(2, axes())) {
      if (ChangesPartial(x.placements(), to) && rank.mesh.size() > 1) {
        EXPECT_THROW(x.Redistribute(to), Error) << what << " -> " << ToString(to);
        continue;
      }
      DTensor y = x.Detach().Redistribute(to);  // Detach: x keeps the versions of earlier calls
      EXPECT_TRUE(rank.mesh.size() == 1 || y.placements() == to) << what << " -> " << ToString(to);
      // Every rank checks its own chunk. Only for a Partial must the terms be summed first.
      Tensor got = to.HasPartial() ? y.FullTensor() : y.ToLocal();
      Tensor want = to.HasPartial() ? global : LocalOf(global, to, rank.mesh);
      EXPECT_LE(LargestDifference(got, want), 1e-13) << what << " -> " << ToString(to);
    }
  });
}

using Make = std::function<DTensor(DeviceMesh&, const Placements&)>;
struct Factory {
  std::string name;
  Make make;
};
std::vector<Factory> Factories(const Shape& shape) {
  auto of = [shape](auto&& make) {
    return [shape, make](DeviceMesh& m, const Placements& p) { return make(shape, m, p); };
  };
  return {{"zeros", of([](auto& s, auto& m, auto& p) { return Zeros(s, m, p); })},
          {"ones", of([](auto& s, auto& m, auto& p) { return Ones(s, m, p, {.dtype = DType::kBF16}); })},
          {"full", of([](auto& s, auto& m, auto& p) { return Full(s, -2.5, m, p, {.dtype = DType::kF64}); })},
          {"rand", of([](auto& s, auto& m, auto& p) { return Rand(s, m, p, {.seed = 3}); })},
          {"uniform", of([](auto& s, auto& m, auto& p) { return Uniform(s, -2, 3, m, p, {.seed = 3}); })},
          {"randn", of([](auto& s, auto& m, auto& p) { return Randn(s, m, p, {.dtype = DType::kF64, .seed = 3}); })},
          {"randn_scope", of([](auto& s, auto& m, auto& p) {
             EagerScope::Current()->BeginStep(4);
             return Randn(s, m, p);
           })},
          {"arange", of([](auto& s, auto& m, auto& p) { return Arange(s[0], m, p); })},
          {"arange_f32", of([](auto& s, auto& m, auto& p) { return Arange(s[0], m, p, {.dtype = DType::kF32}); })}};
}

TEST_P(OnMeshes, FactoriesMakeOneTensorOnEveryMeshAndPlacement) {
  for (const Shape& shape : {Shape{8}, Shape{7, 5}, Shape{5, 3, 6}, Shape{0, 3}})
    for (const Factory& factory : Factories(shape)) {
      int rank_of = factory.name.starts_with("arange") ? 1 : int(shape.size());
      Tensor want;
      OnMesh({1}, [&](Rank rank) { want = factory.make(rank.mesh, {Replicate()}).FullTensor(); });
      OnMesh(GetParam(), [&](Rank rank) {
        for (const Sharding& s : AllShardings(rank_of, axes())) {
          DTensor x = factory.make(rank.mesh, s);
          EXPECT_EQ(x.dtype(), want.dtype());
          EXPECT_EQ(LargestDifference(x.FullTensor(), want), 0) << factory.name << " " << ToString(x);
        }
      });
    }
}

// A bias, a product, activations, a softmax and a sum. Their gradients pass through Partial, Shard and Replicate.
std::vector<Tensor> LossAndGradients(Rank rank, const Sharding& px, const Sharding& pw, const Sharding& pb) {
  DTensor x = DistributeTensor(test::Draw({7, 5}, 1), rank.mesh, px, {.requires_grad = true});
  DTensor w = DistributeTensor(test::Draw({5, 6}, 2), rank.mesh, pw, {.requires_grad = true});
  DTensor b = DistributeTensor(test::Draw({6}, 3), rank.mesh, pb, {.requires_grad = true});
  Var y = Tanh(Einsum("bi,io->bo", x, w) + Var(b));  // [7, 6]
  Var p = Softmax(y, 1);                             // [7, 6]
  Var loss = SumAll(p * y * y);
  std::vector<Tensor> result{ValueOf(loss)};
  for (const Var& g : Grad(loss, {x, w, b})) result.push_back(ValueOf(g));
  return result;
}

TEST_P(OnMeshes, OpsAndGradientsAreThoseOfOneRank) {
  std::vector<Tensor> want;
  OnMesh({1}, [&](Rank rank) { want = LossAndGradients(rank, {Replicate()}, {Replicate()}, {Replicate()}); });
  OnMesh(GetParam(), [&](Rank rank) {
    int pair = 0;
    for (const Sharding& px : AllShardings(2, axes()))
      for (const Sharding& pw : AllShardings(2, axes())) {
        // On two axes, only every seventh of the thousand pairs runs. 7 divides neither number of shardings.
        if (axes() == 2 && pair++ % 7) continue;
        Sharding pb(axes());
        std::string what = fmt::format("x {} w {} on {}", ToString(px), ToString(pw), ToString(rank.mesh.shape()));
        // Two different shards of the contraction on one axis are refused, in the same way on all ranks.
        std::vector<Tensor> got;
        try {
          got = LossAndGradients(rank, px, pw, pb);
        } catch (const AbortedError&) {
          throw;
        } catch (const Error& e) {
          EXPECT_NE(std::string(e.what()).find("reshard one of them"), std::string::npos) << what << ": " << e.what();
          continue;
        }
        // 1e-12: sums of up to 42 terms of size 1 in f64.
        for (size_t i = 0; i < want.size(); i++)
          EXPECT_LE(LargestDifference(got[i], want[i]), 1e-12) << what << " result " << i;
      }
  });
}

// Ops that pick, order and write elements, dims of extent 1, and a loss.
std::vector<Tensor> PicksAndGradient(Rank rank, const Sharding& placement) {
  DTensor x = DistributeTensor(test::Draw({7, 5}, 1), rank.mesh, placement, {.requires_grad = true});
  const double picked_ids[] = {4, 0, 2, 2, 3, 1, 0}, starts[] = {0, 1, 2, 3, 4, 5, 6};
  Sharding whole(rank.mesh.shape().num_axes());
  DTensor ids = DistributeTensor(Tensor::FromDoubles(picked_ids, DType::kI64, {7, 1}), rank.mesh, whole);
  DTensor start = DistributeTensor(Tensor::FromDoubles(starts, DType::kI64, {7}), rank.mesh, whole);
  Var p = LogSoftmax(x, 1), picked = Gather(p, ids, 1);                 // [7, 5], [7, 1]
  Var top = TopK(p, 2, 1).values, y = DynamicUpdate(p, top, start, 1);  // [7, 2], [7, 5]
  Var loss = SumAll(y * picked) + MseLoss(ScatterAdd(p, ids, picked, 1), Clamp(x, -0.5, 0.5));
  std::vector<Tensor> result{ValueOf(loss), ValueOf(Sort(x, 0).indices), ValueOf(Where(x > picked, Reverse(x, 0), y))};
  result.push_back(ValueOf(Grad(loss, {x})[0]));
  return result;
}

TEST_P(OnMeshes, PicksAndOrdersAreThoseOfOneRank) {
  std::vector<Tensor> want;
  OnMesh({1}, [&](Rank rank) { want = PicksAndGradient(rank, {Replicate()}); });
  OnMesh(GetParam(), [&](Rank rank) {
    for (const Sharding& placement : AllShardings(2, axes())) {
      std::vector<Tensor> got = PicksAndGradient(rank, placement);
      // 1e-12: sums of up to 35 terms of size 1 in f64.
      for (size_t i = 0; i < want.size(); i++)
        EXPECT_LE(LargestDifference(got[i], want[i]), 1e-12) << ToString(placement) << " result " << i;
    }
  });
}

TEST(DTensor, AProgramOnTwoByTwoRanks) {
  Tensor full_w = test::Draw({5, 6}, 1), full_x = test::Draw({7, 5}, 2), want;
  auto program = [&](Context& context, GroupFactory& groups, MeshShape shape) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, shape);
    EagerScope eager(context, mesh);
    DTensor w = DistributeTensor(full_w, mesh, {Replicate(), Shard(1)}, {.requires_grad = true});
    DTensor x = DistributeTensor(full_x, mesh, {Shard(0), Replicate()});
    Var y = Relu(Einsum("bi,io->bo", x, w));
    Var loss = SumAll(y * y);
    std::vector<Var> g = Grad(loss, {w});
    EXPECT_EQ(DTensor::Of(g[0]).placements(), w.placements());
    DTensor dw = DTensor::Of(g[0]).Redistribute({Shard(0), Shard(0)});
    DTensor c = DTensor::Of(Exp(Var(dw)) + Var(dw));
    EXPECT_EQ(c.placements(), dw.placements());
    return dw.FullTensor();
  };
  RunRanks(1, [&](Context& context, GroupFactory& groups) { want = program(context, groups, {{"dp", "tp"}, {1, 1}}); });
  RunRanks(4, [&](Context& context, GroupFactory& groups) {
    EXPECT_LE(LargestDifference(program(context, groups, {{"dp", "tp"}, {2, 2}}), want), 1e-12);
  });
}

TEST(DTensor, DistributesTheValuesOfTheSourceRank) {
  OnMesh({2, 2}, [](Rank rank) {
    Tensor mine = test::Draw({5, 3}, uint64_t(rank.mesh.rank()));
    for (int source : {0, 3}) {
      DTensor x = DistributeTensor(mine, rank.mesh, {Shard(0), Replicate()}, {.source = source});
      EXPECT_EQ(LargestDifference(x.FullTensor(), test::Draw({5, 3}, uint64_t(source))), 0);
    }
  });
}

TEST(DTensor, TheMajorAxisOfADimIsTheOneOfOrderZero) {
  OnMesh({2, 2}, [](Rank rank) {
    DTensor x = Arange(4, rank.mesh, {Shard(0, 1), Shard(0, 0)});
    int first = rank.mesh.coords()[0], second = rank.mesh.coords()[1];
    EXPECT_EQ(x.ToLocal().Item(), second * 2 + first);
    EXPECT_EQ(Arange(4, rank.mesh, {Shard(0), Shard(0)}).ToLocal().Item(), first * 2 + second);
    // With a negative dim, the order belongs to the dim that it names.
    EXPECT_EQ(Ones({3, 4}, rank.mesh, {Shard(1, 1), Shard(-1, 0)}).placements(), (Sharding{Shard(1, 1), Shard(1, 0)}));
  });
}

TEST(DTensor, RedistributeKeepsAxesAndIsDifferentiable) {
  OnMesh({2, 2}, [](Rank rank) {
    Tensor full = test::Draw({5, 6}, 1);
    DTensor x = DistributeTensor(full, rank.mesh, {Shard(0), Shard(1)}, {.requires_grad = true});
    DTensor y = x.Redistribute({Keep(), Replicate()});
    EXPECT_EQ(y.placements(), (Sharding{Shard(0), Replicate()}));
    Var y2 = Square(Var(y.Redistribute({Partial(), Replicate()})));
    DTensor dx = DTensor::Of(Grad(SumAll(y2), {x})[0]);
    EXPECT_EQ(dx.placements(), x.placements());
    EXPECT_LE(LargestDifference(dx.FullTensor(), ValueOf(Scale(Var(x), 2.0))), 1e-14);
  });
}

TEST(DTensor, DetachCutsTheHistory) {
  OnMesh({2}, [](Rank rank) {
    DTensor w = Ones({3}, rank.mesh, {Shard(0)}, {.dtype = DType::kF64, .requires_grad = true});
    for (int step = 0; step < 3; step++) {
      Var g = Grad(SumAll(Var(w) * Var(w)), {w})[0];
      w = DTensor::Of(Var(w) - Scale(g, 0.25)).Detach({.requires_grad = true});
      EXPECT_TRUE(Var(w).node().inputs.empty());
    }
    EXPECT_TRUE(w.requires_grad());
    EXPECT_EQ(w.FullTensor().ToDoubles(), std::vector<double>(3, 0.125));
  });
}

TEST(DTensor, OutlivesItsScopeAndServesAnotherOfTheMesh) {
  OnBareMesh({2}, [](Rank rank) {
    DTensor x;
    {
      EagerScope eager(rank.context, rank.mesh);
      x = Arange(5, rank.mesh, {Shard(0)}, {.dtype = DType::kF64});
    }
    EXPECT_EQ(EagerScope::Current(), nullptr);
    EXPECT_EQ(x.Redistribute({Replicate()}).ToLocal().ToDoubles(), (std::vector<double>{0, 1, 2, 3, 4}));
    EagerScope eager(rank.context, rank.mesh);
    EXPECT_EQ(ValueOf(SumAll(x)).Item(), 10);
  });
}

TEST(DTensor, ALocalTensorMayStartInsideItsBuffer) {
  OnMesh({2}, [](Rank rank) {
    Tensor whole = test::Draw({3, 4}, 1);
    Tensor last(whole.buffer(), 4 * sizeof(double), DType::kF64, {2, 4});
    DTensor x = DTensor::FromLocal(last, rank.mesh, {Replicate()}, {2, 4});
    EXPECT_EQ(ValueOf(Merge(x, 0)).ToDoubles(), last.ToDoubles());
  });
}

// A seed determines the tensor, whatever was drawn before. Without a seed, each draw, step and module path has its own
// numbers.
TEST(DTensor, RandomNumbersFollowTheSeedOrTheScope) {
  OnMesh({2}, [](Rank rank) {
    auto seeded = [&](uint64_t seed) { return Randn({4, 5}, rank.mesh, {Shard(0)}, {.seed = seed}).FullTensor(); };
    auto draw = [&] { return Randn({4, 5}, rank.mesh, {Shard(0)}).FullTensor(); };
    Tensor first = seeded(1), a = draw(), b = draw();
    EXPECT_EQ(LargestDifference(first, seeded(1)), 0);
    EXPECT_GT(LargestDifference(first, seeded(2)), 0);
    EXPECT_GT(LargestDifference(a, b), 0);
    EagerScope::Current()->BeginStep(0);
    EXPECT_EQ(LargestDifference(a, draw()), 0);
    EagerScope::Current()->BeginStep(1);
    EXPECT_GT(LargestDifference(a, draw()), 0);
    Tensor u = Uniform({1000}, -2, 3, rank.mesh, {Shard(0)}, {.seed = 1}).FullTensor();
    for (double v : u.ToDoubles()) EXPECT_TRUE(v >= -2 && v <= 3);
  });
}

TEST(DTensor, DropoutIsThatOfOneRank) {
  auto dropped = [](Rank rank) {
    EagerScope::Current()->BeginStep(6);
    return ValueOf(Dropout(Ones({7, 5}, rank.mesh, {Shard(0)}), 0.5));
  };
  Tensor want;
  OnMesh({1}, [&](Rank rank) { want = dropped(rank); });
  OnMesh({3}, [&](Rank rank) { EXPECT_EQ(LargestDifference(dropped(rank), want), 0); });
}

TEST(DTensor, PaddingInEveryDimIsZeroAndComesOff) {
  Tensor small = test::Draw({2, 3, 2}, 1), padded = Resized(small, {3, 5, 4});
  for (int64_t i = 0, at = 0; i < 3; i++)
    for (int64_t j = 0; j < 5; j++)
      for (int64_t k = 0; k < 4; k++, at++)
        EXPECT_EQ(padded.as<double>()[at], i < 2 && j < 3 && k < 2 ? small.as<double>()[(i * 3 + j) * 2 + k] : 0);
  EXPECT_EQ(LargestDifference(Resized(padded, {2, 3, 2}), small), 0);
}

TEST(DTensor, EmptyHasTheStorageOfItsChunk) {
  OnMesh({2, 2}, [](Rank rank) {
    DTensor x = Empty({5, 3}, rank.mesh, {Shard(0), Replicate()}, {.dtype = DType::kBF16});
    EXPECT_EQ(x.dtype(), DType::kBF16);
    EXPECT_EQ(x.ToLocal().shape(), (Shape{rank.mesh.coords()[0] ? 2 : 3, 3}));
    EXPECT_EQ(ToString(x), "bf16 [5, 3] (S(0), R) on x=2 x y=2");
  });
}

}  // namespace
}  // namespace weft
