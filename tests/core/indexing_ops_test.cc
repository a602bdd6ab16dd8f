// Ops that pick and write elements, in programs: updates in place, starts that differ per row, operands that are
// refused.
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "error_of.h"
#include "parallel/testing.h"
#include "weft/core/compile/plan.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft {
namespace {

using test::ErrorOf;
using test::Traced;
using test::Values;
using testing::HasSubstr;
constexpr DType kF64 = DType::kF64;

Tensor Of(DType dtype, const Shape& shape, std::vector<double> values) {
  return Tensor::FromDoubles(values, dtype, shape);
}

Plan PlanOf(const Graph& graph) {
  Plan plan;
  test::OnRanks({{"x"}, {1}}, [&](const Runtime& runtime) { plan = MakePlan(Partition(graph, {}), runtime); });
  return plan;
}

// A cache of keys or values: one token of each row is written, and the cache is stored again under its name.
Graph CacheStep(bool reads_old) {
  return test::Trace([&] {
    Var cache = Leaf("cache", kF64, {4, 64, 2, 8}), token = Leaf("token", kF64, {4, 1, 2, 8});
    Var length = Leaf("length", DType::kI64, {4});
    Var next = DynamicUpdate(cache, token, length, 1);
    Traced traced{{{"sum", SumAll(next)}}, {{"cache", next}}};
    if (reads_old) traced.outputs.push_back({"old", SumAll(cache)});
    return traced;
  });
}

TEST(DynamicUpdate, WritesAnEntryInPlace) {
  Plan plan = PlanOf(CacheStep(false));
  EXPECT_TRUE(plan.copies.empty());
  int updates = 0;
  for (const Step& step : plan.steps)
    if (step.node->op == Op::kDynamicUpdate) {
      updates++;
      EXPECT_EQ(step.out[0].place.kind, Place::kEntry);
      EXPECT_EQ(step.out[0].place.entry, "cache");
    }
  EXPECT_EQ(updates, 1);
  EXPECT_LT(plan.arena_bytes, size_t(4 * 64 * 2 * 8 * 8)) << "no second cache";
}

// A later reader of the old value must still see it, so the update is made elsewhere.
TEST(DynamicUpdate, KeepsAValueThatIsReadAgain) {
  for (const Step& step : PlanOf(CacheStep(true)).steps)
    if (step.node->op == Op::kDynamicUpdate) {
      EXPECT_EQ(step.out[0].place.kind, Place::kArena);
    }
}

TEST(DynamicUpdate, StartsDifferPerRowAndAreClamped) {
  Values got = test::RunOneRank(
      test::Trace([] {
        Var x = Leaf("x", kF64, {3, 4}), update = Leaf("u", kF64, {3, 2}), start = Leaf("s", DType::kI32, {3});
        return Traced{{{"y", DynamicUpdate(x, update, start, 1)}, {"z", DynamicSlice(x, start, 1, 2)}}};
      }),
      {{"x"}, {1}},
      {{"x", Of(kF64, {3, 4}, {0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11})},
       {"u", Of(kF64, {3, 2}, {-1, -2, -3, -4, -5, -6})},
       {"s", Of(DType::kI32, {3}, {-5, 1, 9})}});
  EXPECT_EQ(got.at("y").ToDoubles(), (std::vector<double>{-1, -2, 2, 3, 4, -3, -4, 7, 8, 9, -5, -6}));
  EXPECT_EQ(got.at("z").ToDoubles(), (std::vector<double>{0, 1, 5, 6, 10, 11}));
}

// Heads of a cache that is sharded stay where they are: no collective moves the cache.
TEST(DynamicUpdate, OfAShardedCacheMovesNothing) {
  for (int dim : {0, 2}) {
    Graph graph = test::Trace([&] {
      Var cache = Leaf("cache", kF64, {4, 8, 2, 3}, {Shard(dim)}),
          token = Leaf("token", kF64, {4, 1, 2, 3}, {Shard(dim)});
      return Traced{{{"y", DynamicUpdate(cache, token, Leaf("n", DType::kI64, {4}), 1)}}};
    });
    LocalProgram local = Partition(graph, {.mesh = {{"tp"}, {2}}, .natural = true});
    EXPECT_TRUE(test::Collectives(local).empty()) << dim;
  }
}

// The gradient of a gather from a sharded dim has the placement of its operand.
TEST(Gather, HasAGradientInTheShardsOfItsOperand) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {6, 64}, {Shard(1)}), y = Sin(x), ids = Leaf("ids", DType::kI64, {6, 1});
    Var loss = SumAll(Gather(y, ids, 1));
    return Traced{{{"d", Grad(loss, std::vector{x})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = {{"tp"}, {2}}, .natural = true});
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 6 * 32) << Name(node->op);
}

// ReduceOps on values that are not floats: a Partial sum of picked integers and bools.
TEST(Gather, PicksIntegersAndBoolsFromShards) {
  for (DType dtype : {DType::kI64, DType::kI32, DType::kU8, DType::kBool}) {
    Graph graph = test::Trace([&] {
      Var x = Leaf("x", dtype, {5}, {Shard(0)}), ids = Leaf("ids", DType::kI64, {4});
      return Traced{{{"y", Gather(x, ids, 0)}, {"z", DynamicSlice(x, Leaf("s", DType::kI64, {}), 0, 2)}}};
    });
    Values leaves{{"x", Of(dtype, {5}, {1, 0, 1, 1, 0})},
                  {"ids", Of(DType::kI64, {4}, {4, 0, 3, 3})},
                  {"s", Of(DType::kI64, {}, {2})}};
    test::ExpectSameOnRanks(graph, {{"tp"}, {3}}, leaves);
  }
}

TEST(Indexing, RefusesOperandsThatDoNotFit) {
  auto error = [](const std::function<void(Var x, Var ids)>& build) {
    return ErrorOf([&] {
      test::Trace([&] {
        build(Leaf("x", kF64, {3, 4}), Leaf("ids", DType::kI64, {2, 4}));
        return Traced{};
      });
    });
  };
  EXPECT_THAT(error([](Var x, Var ids) { Gather(x, ids, 1); }),
              testing::AllOf(HasSubstr("gather at indexing_ops_test.cc"), HasSubstr("[3, 4]"), HasSubstr("[2, 4]")));
  EXPECT_THAT(error([](Var x, Var) { Gather(x, x, 0); }), HasSubstr("expected an index of i32 or i64, got f64 [3, 4]"));
  EXPECT_THAT(error([](Var x, Var ids) { Scatter(x, ids, ids, 0); }), HasSubstr("expected elements of f64 [2, 4]"));
  EXPECT_THAT(error([](Var x, Var) { DynamicSlice(x, Full(0, DType::kI64, {}), 1, 5); }),
              HasSubstr("expected a window of 0 to 4 elements of dim 1 of f64 [3, 4], got 5"));
  EXPECT_THAT(error([](Var x, Var) { DynamicSlice(x, Full(0, DType::kI64, {3}), 0, 1); }),
              HasSubstr("at most 0 of them"));
  EXPECT_THAT(error([](Var x, Var) {
                DynamicUpdate(x, Full(0, DType::kF32, {3, 1}), Full(0, DType::kI64, {}), 1);
              }),
              HasSubstr("expected an update of the dtype of f64 [3, 4], got f32 [3, 1]"));
  EXPECT_THAT(error([](Var x, Var) { TopK(x, 5, 1); }), HasSubstr("expected k in [0, 4]"));
}

}  // namespace
}  // namespace weft
