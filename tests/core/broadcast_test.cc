// Elementwise ops broadcast their operands as NumPy does. Values, gradients and shards follow.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft {
namespace {

using test::ErrorOf;
using test::Traced;
using test::Values;
constexpr DType kF64 = DType::kF64;

const std::vector<std::pair<Shape, Shape>> kPairs{
    {{2, 1, 3}, {2, 4, 3}}, {{1, 3}, {5, 3}},    {{5, 1}, {1, 3}},       {{1}, {4}},
    {{1, 1, 1}, {2, 3, 4}}, {{3, 1}, {2, 1, 4}}, {{2, 1, 3}, {4, 1}},    {{}, {2, 1}},
    {{1, 4}, {}},           {{2, 3}, {2, 3}},    {{1, 2, 1}, {3, 1, 2}}, {{1, 0}, {3, 1}}};

// Element i of the broadcast value.
double At(const Tensor& x, const Shape& shape, const Shape& index) {
  int64_t at = 0;
  for (size_t d = 0; d < x.shape().size(); d++) {
    int64_t extent = x.shape()[d], i = index[shape.size() - x.shape().size() + d];
    at = at * extent + (extent == 1 ? 0 : i);
  }
  return x.as<double>()[at];
}
void Advance(Shape& index, const Shape& shape) {
  for (size_t d = shape.size(); d-- > 0;) {
    if (++index[d] < shape[d]) return;
    index[d] = 0;
  }
}

TEST(Broadcast, ValuesAreThoseOfTheExpandedOperands) {
  for (auto [a, b] : kPairs) {
    Shape want = *BroadcastShape(a, b);
    Graph graph = test::Trace([&, a = a, b = b] {
      Var x = Leaf("x", kF64, a), y = Leaf("y", kF64, b);
      return Traced{{{"sub", x - y}, {"less", x < y}, {"select", Select(y < x, x, y)}}};
    });
    Values leaves{{"x", test::Draw(a, 1)}, {"y", test::Draw(b, 2)}},
        got = test::RunOneRank(graph, {{"x"}, {1}}, leaves);
    for (auto& [name, value] : got) ASSERT_EQ(value.shape(), want) << name;
    Shape index(want.size(), 0);
    for (int64_t i = 0; i < NumElements(want); i++, Advance(index, want)) {
      double x = At(leaves.at("x"), want, index), y = At(leaves.at("y"), want, index);
      EXPECT_EQ(got.at("sub").ToDoubles()[size_t(i)], x - y);
      EXPECT_EQ(got.at("less").ToDoubles()[size_t(i)], x < y);
      EXPECT_EQ(got.at("select").ToDoubles()[size_t(i)], y < x ? x : y);
    }
  }
}

// The gradient of an operand is the sum over its repetitions, on one rank and on a mesh, in every placement of x.
TEST(Broadcast, GradientsAndShardsFollow) {
  MeshShape mesh{{"dp", "tp"}, {2, 2}};
  for (auto [a, b] : kPairs) {
    std::vector<Sharding> placements{Sharding(2)};
    for (int d = 0; d < int(a.size()); d++)
      for (int axis : {0, 1}) {
        placements.emplace_back(2);
        placements.back().Set(axis, Shard(d));
      }
    for (const Sharding& placement : placements) {
      Graph graph = test::Trace([&, a = a, b = b] {
        Var x = Leaf("x", kF64, a, placement), y = Leaf("y", kF64, b), z = x * y;
        Var weights = Leaf("w", kF64, z.shape());
        std::vector<Var> d = Grad(SumAll(z * weights), std::vector{x, y});
        EXPECT_EQ(d[0].shape(), a);
        EXPECT_EQ(d[1].shape(), b);
        return Traced{{{"z", z}, {"dx", d[0]}, {"dy", d[1]}}};
      });
      Values leaves{{"x", test::Draw(a, 1)}, {"y", test::Draw(b, 2)}, {"w", test::Draw(*BroadcastShape(a, b), 3)}};
      test::ExpectSameOnRanks(graph, mesh, leaves);
    }
  }
}

// The dim that is not repeated keeps its shards: nothing moves.
TEST(Broadcast, KeepsTheShardsOfOtherDims) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {4, 1, 6}, {Shard(0)}), y = Leaf("y", kF64, {4, 5, 6}, {Shard(0)});
    return Traced{{{"z", x * y}}};
  });
  EXPECT_TRUE(test::Collectives(Partition(graph, {.mesh = {{"tp"}, {2}}, .natural = true})).empty());
}

TEST(Broadcast, RefusesShapesThatDoNotFitAndNamesBoth) {
  int line = 0;
  std::string error = ErrorOf([&] {
    test::Trace([&] {
      Var x = Leaf("x", kF64, {2, 3}), y = Leaf("y", kF64, {4, 1, 5});
      line = __LINE__ + 1;
      return Traced{{{"z", x * y}}};
    });
  });
  EXPECT_THAT(error, testing::HasSubstr(fmt::format("mul at broadcast_test.cc:{}", line)));
  EXPECT_THAT(error, testing::AllOf(testing::HasSubstr("[2, 3]"), testing::HasSubstr("[4, 1, 5]")));
  EXPECT_FALSE(BroadcastShape({2}, {3}));
}

}  // namespace
}  // namespace weft
