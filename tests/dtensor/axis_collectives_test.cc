// Collectives on DTensors: for every placement of a tensor on two axes, the value stays, the axis has the placement
// that the collective gives, the other axis keeps its own, and one collective of that kind is sent along the axis
// unless both axes shard one dim.
#include "weft/parallel/dtensor/axis_collectives.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include "dtensor/worlds.h"
#include "error_of.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/parallel/dtensor/factories.h"

namespace weft {
namespace {

const std::vector<int> kMesh{2, 2};
const Shape kShape{5, 7};  // odd, so the ranks' chunks differ

struct Call {
  CollectiveOp op;
  Placement from, to;
  std::function<DTensor(const DTensor&, std::string_view)> fn;
};
std::vector<Call> Calls() {
  using namespace collectives;
  return {
      {CollectiveOp::kAllReduce, Partial(), Replicate(), [](auto& x, auto axis) { return AllReduce(x, axis); }},
      {CollectiveOp::kAllGather, Shard(0), Replicate(), [](auto& x, auto axis) { return AllGather(x, axis); }},
      {CollectiveOp::kAllGather, Shard(1), Replicate(), [](auto& x, auto axis) { return AllGather(x, axis); }},
      {CollectiveOp::kReduceScatter, Partial(), Shard(0), [](auto& x, auto axis) { return ReduceScatter(x, axis, 0); }},
      {CollectiveOp::kReduceScatter, Partial(), Shard(1),
       [](auto& x, auto axis) { return ReduceScatter(x, axis, -1); }},
      {CollectiveOp::kAllToAll, Shard(0), Shard(1), [](auto& x, auto axis) { return AllToAll(x, axis, 1); }},
      {CollectiveOp::kAllToAll, Shard(1), Shard(0), [](auto& x, auto axis) { return AllToAll(x, axis, -2); }},
  };
}

// Whether a placement of the other axis leaves the call a single collective: axes that share a dim are moved in steps.
bool IsApart(const Placement& other, const Call& call) {
  auto shares = [&](const Placement& p) { return p.kind == Placement::kShard && p.dim == other.dim; };
  return other.kind != Placement::kShard || !(shares(call.from) || shares(call.to));
}

TEST(AxisCollectives, ChangeOneAxisAndKeepTheValue) {
  test::OnMesh(kMesh, [](test::Rank rank) {
    DTensor whole = Randn(kShape, rank.mesh, {Replicate(), Replicate()}, {.dtype = DType::kF64, .seed = 3});
    Tensor value = whole.FullTensor();
    for (const Call& call : Calls())
      for (int axis : {0, 1})
        for (const Placement& other : {Replicate(), Shard(0), Shard(1), Partial()}) {
          std::vector<Placement> placements(2, other), wanted(2, other);
          placements[size_t(axis)] = call.from;
          wanted[size_t(axis)] = call.to;
          // Chunks of the other axis are cut again, so that it keeps what it has.
          if (call.to.kind == Placement::kShard && other.kind == Placement::kShard && other.dim == call.to.dim)
            wanted[size_t(axis)].order = 1, wanted[size_t(1 - axis)].order = 0;
          DTensor x = whole.Redistribute(placements);
          std::string what = fmt::format("{} of {} on axis {}", Name(call.op), ToString(x), axis);
          rank.mesh.ResetCounts();
          DTensor y = call.fn(x, rank.mesh.shape().names[size_t(axis)]);
          std::vector<DeviceMesh::AxisCount> counts = rank.mesh.Counts();
          Sharding want = Placements(wanted).Check(kShape, rank.mesh.shape(), {"test", Loc::current()});
          EXPECT_EQ(y.placements(), want) << what << " gives " << ToString(y);
          test::ExpectIs(y, value, what);
          if (!IsApart(other, call)) continue;
          ASSERT_EQ(counts.size(), 1u) << what;
          EXPECT_EQ(counts[0].axis, axis) << what;
          EXPECT_EQ(counts[0].op, call.op) << what;
          EXPECT_EQ(counts[0].count.calls, 1) << what;
        }
  });
}

TEST(AxisCollectives, AreDifferentiable) {
  test::OnMesh(kMesh, [](test::Rank rank) {
    for (const Call& call : Calls()) {
      DTensor x =
          Randn(kShape, rank.mesh, {call.from, Replicate()}, {.dtype = DType::kF64, .requires_grad = true, .seed = 4});
      Var y = call.fn(x, rank.mesh.shape().names[0]);
      DTensor gradient = DTensor::Of(Grad(SumAll(y * y), {x})[0]);  // [5, 7]
      Tensor want = DTensor::Of(Var(x) * 2.0).FullTensor();
      EXPECT_LE(test::LargestDifference(gradient.FullTensor(), want), 1e-13) << Name(call.op);
    }
  });
}

TEST(AxisCollectives, SendNothingOnAnAxisOfOneRank) {
  test::OnMesh({1, 2}, [](test::Rank rank) {
    DTensor x = Randn(kShape, rank.mesh, {Replicate(), Shard(0)}, {.seed = 5});
    rank.mesh.ResetCounts();
    std::string axis = rank.mesh.shape().names[0];
    for (const Call& call : Calls()) EXPECT_EQ(call.fn(x, axis).placements(), x.placements());
    std::string error = test::ErrorOf([&] { collectives::ReduceScatter(x, axis, 2); });  // is wrong on any mesh
    EXPECT_NE(error.find("ReduceScatter at axis_collectives_test.cc"), std::string::npos) << error;
    EXPECT_TRUE(rank.mesh.Counts().empty());
  });
}

TEST(AxisCollectives, SayWhatTheyExpect) {
  test::OnMesh(kMesh, [](test::Rank rank) {
    DTensor x = Randn(kShape, rank.mesh, {Replicate(), Shard(0)}, {.seed = 6});
    std::string axis = rank.mesh.shape().names[0];
    std::string error = test::ErrorOf([&] { collectives::AllReduce(x, axis); });
    EXPECT_NE(error.find(fmt::format("expected a DTensor that is Partial on axis \"{}\", got {}", axis, ToString(x))),
              std::string::npos)
        << error;
    auto expect = [&](const std::string& part, auto fn) {
      std::string text = test::ErrorOf(fn);
      EXPECT_NE(text.find(part), std::string::npos) << text;
    };
    expect("AllGather at axis_collectives_test.cc:", [&] { collectives::AllGather(x, "nowhere"); });
    expect("expected one of the axes x, y of the mesh, got \"nowhere\"", [&] { collectives::AllGather(x, "nowhere"); });
    expect("S(2) on axis \"y\" names no dim of [5, 7]; expected one in [-2, 2)",
           [&] { collectives::AllToAll(x, "y", 2); });
    EXPECT_NE(test::ErrorOf([&] { collectives::AllToAll({}, axis, 0); }).find("is empty"), std::string::npos);
  });
}

}  // namespace
}  // namespace weft
