// A reshard with a wire, between all placements. Every sum over ranks that it needs has the wire, no other collective
// has it, and values are off by no more than the wire's roundings.
#include <gtest/gtest.h>

#include <cmath>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/collective_row.h"
#include "weft/core/ir/wire.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::EveryPlacement;

Graph Moved(const Shape& shape, const Sharding& from, const Sharding& to, std::optional<DType> wire,
            DType dtype = DType::kF32) {
  return test::Trace([&] { return test::Traced{{{"y", Reshard(Leaf("x", dtype, shape, from), to, wire)}}}; });
}

// Returns how many roundings a value may go through. An all_reduce also rounds its sum.
int RoundingsOf(const LocalProgram& program) {
  int roundings = 0;
  for (const auto& node : program.graph.nodes) {
    const CollectiveRow* row = FindCollectiveRow(node->op);
    EXPECT_EQ(WireOf(node->attrs).has_value(), row && row->cost > 0 && row->reduces) << Name(node->op);
    if (WireOf(node->attrs)) roundings += node->op == Op::kAllReduce ? 2 : 1;
  }
  return roundings;
}

// Returns, for each element, the sum of the magnitudes of its terms.
std::vector<double> Sizes(const Tensor& x, const Sharding& from, const MeshShape& mesh) {
  Sharding terms(mesh.num_axes());
  for (int a = 0; a < mesh.num_axes(); a++)
    if (from[a].kind == Placement::kPartial) terms.Set(a, from[a]);
  std::vector<double> sizes(size_t(NumElements(x.shape())));
  for (int r = 0; r < mesh.num_ranks(); r++) {
    std::vector<double> values = test::Chunk(x, terms, mesh, mesh.CoordsOf(r)).ToDoubles();
    for (size_t i = 0; i < sizes.size(); i++) sizes[i] += std::abs(values[i]);
  }
  return sizes;
}

// Ranks that hold the same element have the same bits. Otherwise Assemble in RunRanks would throw.
TEST(WireReshard, RoundsEachTermOnceOnEachAxis) {
  constexpr double kHalfPlace = 0x1p-8;  // half a unit in the last place of bf16, as a relative error
  const Shape shape{7, 5};
  int sums = 0;
  for (const std::vector<int>& sizes : std::vector<std::vector<int>>{{2}, {3}, {2, 2}, {2, 3}}) {
    MeshShape mesh = test::MeshOf(sizes);
    for (const Sharding& from : EveryPlacement(mesh.num_axes()))
      for (const Sharding& to : EveryPlacement(mesh.num_axes())) {
        std::string what = ToString(from) + " -> " + ToString(to) + " on " + ToString(mesh);
        Tensor x = test::Draw(shape, 11, DType::kF32);
        Graph graph = Moved(shape, from, to, DType::kBF16);
        int roundings = RoundingsOf(Partition(graph, {.mesh = mesh, .natural = true}));
        std::vector<double> got = test::RunRanks(graph, mesh, {{"x", x}}, {.natural = true}).at("y").ToDoubles();
        std::vector<double> want = x.ToDoubles(), size = Sizes(x, from, mesh);
        double each = std::pow(1 + kHalfPlace, roundings) - 1;
        for (size_t i = 0; i < want.size(); i++)  // 1e-6 covers the roundings of the f32 sums
          ASSERT_LE(std::abs(got[i] - want[i]), (each + 1e-6) * size[i]) << what << ", element " << i;
        sums += roundings > 0;
        if (roundings == 0) continue;
        auto plain = test::RunRanks(Moved(shape, from, to, {}), mesh, {{"x", x}}, {.natural = true}).at("y");
        EXPECT_NE(plain.ToDoubles(), got) << what << ": nothing was rounded";
      }
  }
  EXPECT_GT(sums, 40);
}

// Other readers of the value, before or after the reshard, get it without the wire's rounding.
TEST(WireReshard, LeavesTheValueItselfAsItIs) {
  const Sharding partial{Partial()}, whole{Replicate()};
  MeshShape mesh = test::MeshOf({2});
  Tensor x = test::Draw({40}, 3, DType::kF32);
  for (bool first : {false, true}) {
    Graph graph = test::Trace([&] {
      Var leaf = Leaf("x", DType::kF32, {40}, partial);
      Var before = first ? Reshard(leaf, whole) : Var(), wired = Reshard(leaf, whole, DType::kBF16);
      return test::Traced{{{"plain", first ? before : Reshard(leaf, whole)}, {"wired", wired}}};
    });
    test::Values got = test::RunRanks(graph, mesh, {{"x", x}});
    test::Values alone = test::RunRanks(Moved({40}, partial, whole, {}), mesh, {{"x", x}});
    EXPECT_EQ(got.at("plain").ToDoubles(), alone.at("y").ToDoubles());
  }
}

TEST(WireReshard, IsOfF32SumsInBf16) {
  const Sharding partial{Partial()}, whole{Replicate()};
  auto error = [&](DType dtype, DType wire) { return test::ErrorOf([&] { Moved({4}, partial, whole, wire, dtype); }); };
  EXPECT_EQ(error(DType::kF32, DType::kBF16), "");
  EXPECT_NE(error(DType::kF64, DType::kBF16).find("expected sums of f32 with wire bf16, got f64 with wire bf16"),
            std::string::npos);
  EXPECT_NE(error(DType::kF32, DType::kF16), "");
  // A maximum is not rounded.
  LocalProgram most = Partition(Moved({4}, Sharding{Partial(ReduceOp::kMax)}, whole, DType::kBF16),
                                {.mesh = test::MeshOf({2}), .natural = true});
  for (const auto& node : most.graph.nodes) EXPECT_FALSE(WireOf(node->attrs)) << Name(node->op);
}

}  // namespace
}  // namespace weft
