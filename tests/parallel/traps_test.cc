// The traps of placements, each by name: the numbered points of design.md section 5, and the bugs that others shipped
// (dtensor.md, "PT" a PyTorch and "ML" a Megatron-LM issue).
#include <fmt/format.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>

#include "core/base/shard.h"
#include "core/compile/comm_plan.h"
#include "core/compile/eager.h"
#include "core/compile/plan.h"
#include "core/graph/builder.h"
#include "core/ops/ops.h"
#include "core/transforms/grad.h"
#include "parallel/testing.h"

namespace weft {
namespace {

using test::Collectives;
using test::Draw;
using test::ExpectSameOnRanks;
using test::RunOneRank;
using test::RunRanks;
using test::Traced;
using test::Values;
using Counts = std::map<std::string, int>;
using testing::AllOf;
using testing::HasSubstr;

const MeshShape kDp2Tp2{{"dp", "tp"}, {2, 2}};
const MeshShape kTp2{{"tp"}, {2}};
const MeshShape kTp4{{"tp"}, {4}};
constexpr DType kF64 = DType::kF64;
const Placement R = Replicate();
const Placement P = Partial();
Placement S(int dim, int order = -1) { return Shard(dim, order); }

Tensor Ids(const Shape& shape, int64_t below, int64_t seed = 5) {
  std::vector<double> values;
  for (int64_t i = 0; i < NumElements(shape); i++) values.push_back(double((i * 7 + seed) % below));
  return Tensor::FromDoubles(values, DType::kI64, shape);
}

std::string ErrorOf(const std::function<void()>& body) {
  try {
    body();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

// The placement that the rules give to the first output of the graph.
Sharding NaturalPlacement(const Graph& graph, const MeshShape& mesh) {
  LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
  const Var& out = local.graph.outputs[0].value;
  return out.node().outputs[size_t(out.index())].sharding;
}

// ---- Point 1: axis by axis, no search; conflicts are errors; the explicit mode. ----

TEST(Rules, AConflictNamesOpOperandsPlacementsAndLine) {
  int line = 0;
  auto build = [&] {
    Var a = Leaf("a", kF64, {4, 6}, {S(0)}), b = Leaf("b", kF64, {4, 6}, {S(1)});
    ModuleScope scope("block.3");
    line = __LINE__ + 1;
    return Traced{{{"y", a * b}}};
  };
  Graph graph = test::Trace(build);
  EXPECT_EQ(ErrorOf([&] { Partition(graph, {.mesh = kTp2}); }),
            fmt::format("mul at traps_test.cc:{} in block.3: operand 0 [4, 6] is S(0) on axis \"tp\" but operand 1 [4, "
                        "6] is S(1); reshard one of them",
                        line));
}

// Different axes of the mesh may shard different dims of the operands: no conflict.
TEST(Rules, EachAxisDecidesOnItsOwn) {
  Graph graph = test::Trace([] {
    Var a = Leaf("a", kF64, {4, 6}, {S(0), R}), b = Leaf("b", kF64, {4, 6}, {R, S(1)});
    return Traced{{{"y", a + b}}};
  });
  EXPECT_EQ(NaturalPlacement(graph, kDp2Tp2), (Sharding{S(0), S(1)}));
  EXPECT_EQ(Collectives(Partition(graph, {.mesh = kDp2Tp2, .natural = true})), Counts{});
  ExpectSameOnRanks(graph, kDp2Tp2, {{"a", Draw({4, 6}, 1)}, {"b", Draw({4, 6}, 2)}});
}

TEST(Rules, TheFirstFixedOrderOfAxesIsTakenAndTheOthersFollow) {
  Graph graph = test::Trace([] {
    Var a = Leaf("a", kF64, {8}, {S(0, 1), S(0, 0)}), b = Leaf("b", kF64, {8}, {S(0, 0), S(0, 1)});
    return Traced{{{"y", a + b}}};
  });
  EXPECT_EQ(NaturalPlacement(graph, kDp2Tp2), (Sharding{S(0, 1), S(0, 0)}));
  ExpectSameOnRanks(graph, kDp2Tp2, {{"a", Draw({8}, 1)}, {"b", Draw({8}, 2)}});
}

TEST(Rules, TheExplicitModeRefusesAndSaysWhatItWouldInsert) {
  int line = __LINE__ + 3;
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {4, 6}, {S(1)});
    return Traced{{{"y", Exp(ReduceSum(x, 1))}}};
  });
  std::string error = ErrorOf([&] { Partition(graph, {.mesh = kTp2, .check = true, .natural = true}); });
  EXPECT_EQ(
      error,
      fmt::format(
          "exp at traps_test.cc:{}: needs [4] as (R) but it is (P(sum)): all_reduce on axis \"tp\" would be inserted; "
          "reshard it explicitly",
          line));
  Graph explicit_graph = test::Trace([] {
    Var x = Leaf("x", kF64, {4, 6}, {S(1)});
    return Traced{{{"y", Exp(Reshard(ReduceSum(x, 1), {R}))}}};
  });
  EXPECT_EQ(Collectives(Partition(explicit_graph, {.mesh = kTp2, .check = true})), (Counts{{"all_reduce", 1}}));
}

// A free local slice is not a collective: the explicit mode lets it pass.
TEST(Rules, TheExplicitModeAllowsALocalSlice) {
  Graph graph = test::Trace([] { return Traced{{{"y", Leaf("a", kF64, {4}, {S(0)}) + Leaf("b", kF64, {4}, {R})}}}; });
  EXPECT_EQ(Collectives(Partition(graph, {.mesh = kTp2, .check = true, .natural = true})), Counts{});
}

TEST(Rules, AShardOfADimThatIsNotThereIsRefused) {
  for (int dim : {-1, 2, 7}) {
    EXPECT_THAT(ErrorOf([&] { test::Trace([&] {
                                return Traced{{{"y", Exp(Leaf("x", kF64, {4, 6}, {S(dim)}))}}};
                              }); }),
                AllOf(HasSubstr("leaf at traps_test.cc"), HasSubstr(fmt::format("S({})", dim)), HasSubstr("[4, 6]")));
    EXPECT_THAT(ErrorOf([&] {
                  test::Trace([&] { return Traced{{{"y", Reshard(Leaf("x", kF64, {4, 6}, {R}), {S(dim)})}}}; });
                }),
                HasSubstr("reshard at traps_test.cc"));
  }
}

TEST(Rules, APlacementOfAnotherNumberOfAxesIsRefused) {
  Graph graph = test::Trace([] { return Traced{{{"y", Leaf("x", kF64, {4}, {S(0)})}}}; });
  EXPECT_THAT(ErrorOf([&] { Partition(graph, {.mesh = kDp2Tp2}); }),
              HasSubstr("has 1 axes, the mesh dp=2 x tp=2 has 2"));
}

// ---- Points 2 and 11: where a Partial may stay. ----

struct PartialCase {
  const char* name;
  std::function<Var(Var p, Var q, Var r)> op;  // p, q Partial(sum), r Replicate
  Placement want;
};

TEST(Partials, AreKeptOnlyWhereAllOperandsAreTheSameSumAndBytesDoNotGrow) {
  const PartialCase cases[] = {
      {"add of two", [](Var p, Var q, Var) { return p + q; }, P},
      {"sub of two", [](Var p, Var q, Var) { return p - q; }, P},
      {"scale", [](Var p, Var, Var) { return Scale(p, 3.0); }, P},
      {"neg", [](Var p, Var, Var) { return -p; }, P},
      {"permute",
       [](Var p, Var, Var) {
         return Permute(p, {1, 0});
       },
       P},
      {"reduce_sum", [](Var p, Var, Var) { return ReduceSum(p, 0); }, P},
      {"slice", [](Var p, Var, Var) { return Slice(p, 0, 1, 2); }, P},
      {"concat",
       [](Var p, Var q, Var) {
         return Concat(std::vector{p, q}, 0);
       },
       P},
      {"narrowing cast", [](Var p, Var, Var) { return Cast(p, DType::kF32); }, P},
      {"add of a replicated one", [](Var p, Var, Var r) { return p + r; }, R},
      {"add_scalar", [](Var p, Var, Var) { return AddScalar(p, 1.0); }, R},
      {"mul with a replicated one", [](Var p, Var, Var r) { return p * r; }, R},
      {"mul of two", [](Var p, Var q, Var) { return p * q; }, R},
      {"div", [](Var p, Var, Var r) { return p / r; }, R},
      {"maximum", [](Var p, Var q, Var) { return Maximum(p, q); }, R},
      {"einsum with a replicated one", [](Var p, Var, Var r) { return Einsum("ab,cb->ac", p, r); }, R},
      {"einsum of two", [](Var p, Var q, Var) { return Einsum("ab,cb->ac", p, q); }, R},
      {"broadcast", [](Var p, Var, Var) { return Broadcast(p, 0, 3); }, R},
      {"pad", [](Var p, Var, Var) { return Pad(p, 0, 1, 1); }, R},
      {"exp", [](Var p, Var, Var) { return Exp(p); }, R},
      {"reduce_max", [](Var p, Var, Var) { return ReduceMax(p, 0); }, R},
      {"sum_of_squares", [](Var p, Var, Var) { return SumOfSquares(p); }, R},
      {"cast to integers", [](Var p, Var, Var) { return Cast(p, DType::kI64); }, R},
  };
  for (const PartialCase& c : cases) {
    Graph graph = test::Trace([&] {
      return Traced{
          {{"y", c.op(Leaf("p", kF64, {4, 6}, {P}), Leaf("q", kF64, {4, 6}, {P}), Leaf("r", kF64, {4, 6}, {R}))}}};
    });
    EXPECT_EQ(NaturalPlacement(graph, kTp2), Sharding{c.want}) << c.name;
    Values leaves{{"p", Draw({4, 6}, 1)}, {"q", Draw({4, 6}, 2)}, {"r", Draw({4, 6}, 3)}};
    // A sum cast to f32 rounds each term on its own: 6e-8 each.
    ExpectSameOnRanks(graph, kTp2, leaves, std::string(c.name) == "narrowing cast" ? 1e-6 : 1e-12);
  }
}

// A widening cast would double the bytes of the reduction: the sum ends before it, in the narrow type. On a chain of
// parameters it passes (Fsdp.GathersTheNarrowValueAndReducesInTheWideOne).
TEST(Partials, AWideningCastOfAnIntermediateResolvesThem) {
  for (DType narrow : {DType::kBF16, DType::kF32}) {
    Graph graph = test::Trace([&] {
      return Traced{{{"y", Cast(ReduceSum(Leaf("x", narrow, {4, 6}, {S(1)}), 1), kF64)}}};
    });
    EXPECT_EQ(NaturalPlacement(graph, kTp2), Sharding{R});
    LocalProgram local = Partition(graph, {.mesh = kTp2, .natural = true});
    EXPECT_EQ(Collectives(local), (Counts{{"all_reduce", 1}}));
    for (const auto& node : local.graph.nodes) {
      if (node->op == Op::kAllReduce) {
        EXPECT_EQ(node->outputs[0].dtype, narrow);
      }
    }
  }
}

// PT#165962: a Partial of one kind passed an op that keeps another. Even where an op is linear a maximum does not pass
// it: max(a) + max(b) is not max(a + b), and -max(a) is a minimum.
TEST(Partials, PT165962_AMaxPassesNoLinearOp) {
  for (ReduceOp op : {ReduceOp::kMax, ReduceOp::kMin})
    for (auto& build :
         std::vector<std::function<Var(Var)>>{[](Var p) { return -p; }, [](Var p) { return Scale(p, -2.0); },
                                              [](Var p) { return p + p; }, [](Var p) { return ReduceSum(p, 0); }}) {
      Graph graph = test::Trace([&] { return Traced{{{"y", build(Leaf("p", kF64, {5, 3}, {Partial(op)}))}}}; });
      EXPECT_EQ(NaturalPlacement(graph, kTp2), Sharding{R});
      ExpectSameOnRanks(graph, kTp2, {{"p", Draw({5, 3}, 1)}});
    }
}

// A sum over one axis of a maximum over another has no one meaning: the order of the reductions would matter.
TEST(Partials, TwoKindsNeverStandInOnePlacement) {
  Sharding mixed{P, Partial(ReduceOp::kMax)};
  Graph leaf = test::Trace([&] { return Traced{{{"y", Leaf("x", kF64, {4}, mixed)}}}; });
  Graph reshard = test::Trace([&] { return Traced{{{"y", Reshard(Leaf("x", kF64, {4}, {R, R}), mixed)}}}; });
  for (const Graph* graph : {&leaf, &reshard})
    EXPECT_THAT(ErrorOf([&] { Partition(*graph, {.mesh = kDp2Tp2}); }),
                AllOf(HasSubstr("(P(sum), P(max))"), HasSubstr("never mix")));
  // On an axis of one rank a Partial is nothing.
  EXPECT_EQ(ErrorOf([&] { Partition(leaf, {.mesh = {{"dp", "tp"}, {1, 2}}}); }), "no error");
}

// The rules do not make such a mix either: the pending sum over dp ends before a maximum over tp begins.
TEST(Partials, AMaxOverAShardedDimResolvesAPendingSumFirst) {
  Graph graph = test::Trace([] { return Traced{{{"y", ReduceMax(Leaf("x", kF64, {3, 6}, {P, S(1)}), 1)}}}; });
  EXPECT_EQ(NaturalPlacement(graph, kDp2Tp2), (Sharding{R, Partial(ReduceOp::kMax)}));
  ExpectSameOnRanks(graph, kDp2Tp2, {{"x", Draw({3, 6}, 1)}});
}

// Resolved at its producer: two readers share one all-reduce, and a shard is wanted as a reduce-scatter.
TEST(Partials, AreResolvedOnceHoweverManyReaders) {
  Graph graph = test::Trace([] {
    Var p = ReduceSum(Leaf("x", kF64, {4, 6}, {S(1)}), 1);
    return Traced{{{"y", Exp(p)}, {"z", Sin(p)}, {"w", p * p}}};
  });
  EXPECT_EQ(Collectives(Partition(graph, {.mesh = kTp2})), (Counts{{"all_reduce", 1}}));
  Graph sharded = test::Trace([] {
    Var p = ReduceSum(Leaf("x", kF64, {4, 6}, {S(1)}), 1);
    return Traced{{{"y", Leaf("s", kF64, {4}, {S(0)}) * p}}};
  });
  EXPECT_EQ(Collectives(Partition(sharded, {.mesh = kTp2, .natural = true})), (Counts{{"reduce_scatter", 1}}));
}

// ---- Points 2 and 3: Megatron's pattern, whose collectives are known by number. ----

// x + gelu(x w1) w2, twice; columns of w1 and rows of w2 on tp.
Graph MegatronMlp(bool sequence_parallel) {
  return test::Trace([=] {
    Sharding column{S(1)}, row{S(0)}, stream = sequence_parallel ? Sharding{S(1)} : Sharding{R};
    Var x = Leaf("x", kF64, {2, 6, 4}, stream);
    std::vector<Var> wrt{x};
    for (int layer = 0; layer < 2; layer++) {
      ModuleScope scope(fmt::format("layers.{}", layer));
      Var g = ParameterLeaf(fmt::format("g{}", layer), kF64, {4}, {R}),
          w1 = ParameterLeaf(fmt::format("w1{}", layer), kF64, {4, 8}, column),
          w2 = ParameterLeaf(fmt::format("w2{}", layer), kF64, {8, 4}, row);
      Var h = RmsNorm(x, g, 1e-5);  // [B, T, C]
      if (sequence_parallel) h = Reshard(h, {R});
      h = Einsum("btf,fc->btc", Gelu(Einsum("btc,cf->btf", h, w1)), w2);  // [B, T, C]
      x = x + (sequence_parallel ? Reshard(h, stream) : h);
      wrt.insert(wrt.end(), {g, w1, w2});
    }
    Traced traced{{{"loss", SumAll(x * x)}}};
    std::vector<Var> d = Grad(traced.outputs[0].value, wrt);
    for (size_t i = 0; i < d.size(); i++) traced.outputs.push_back({fmt::format("d{}", i), d[i]});
    return traced;
  });
}
Values MegatronValues() {
  Values values{{"x", Draw({2, 6, 4}, 1)}};
  for (uint64_t layer : {0, 1}) {
    values[fmt::format("g{}", layer)] = Draw({4}, 10 + layer);
    values[fmt::format("w1{}", layer)] = Draw({4, 8}, 20 + layer);
    values[fmt::format("w2{}", layer)] = Draw({8, 4}, 30 + layer);
  }
  return values;
}

// A half layer has one all-reduce forward (after the row product) and one backward (before the column product). Keeping
// Partials longer made eight of them thirty.
TEST(Megatron, TwoMlpsAllReduceTwiceForwardAndTwiceBackward) {
  Graph graph = MegatronMlp(false);
  for (const MeshShape& mesh : {kTp2, kTp4}) {
    LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
    EXPECT_EQ(Collectives(local, Phase::kForward), (Counts{{"all_reduce", 2}})) << Print(local.graph);
    EXPECT_EQ(Collectives(local, Phase::kBackward), (Counts{{"all_reduce", 2}})) << Print(local.graph);
    ExpectSameOnRanks(graph, mesh, MegatronValues());
  }
}

// Sequence parallel: an all-gather and a reduce-scatter forward, their duals backward; the output of a reshard keeps
// its Partial cotangent, so P -> S is one reduce-scatter and not an all-reduce and a slice.
TEST(Megatron, SequenceParallelGathersAndScattersOncePerMlpAndDirection) {
  Graph graph = MegatronMlp(true);
  for (const MeshShape& mesh : {kTp2, kTp4}) {
    LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
    EXPECT_EQ(Collectives(local, Phase::kForward), (Counts{{"all_gather", 2}, {"reduce_scatter", 2}}))
        << Print(local.graph);
    EXPECT_EQ(Collectives(local, Phase::kBackward), (Counts{{"all_gather", 2}, {"reduce_scatter", 2}}))
        << Print(local.graph);
    ExpectSameOnRanks(graph, mesh, MegatronValues());
  }
}

// Point 3: a conversion that Partition inserts has its dual, and no cotangent is born at global size.
TEST(Cotangents, AreShardedLikeTheirPrimals) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {4, 6}, {S(0)}), y = Exp(Sin(x));
    Var total = SumAll(y * y);
    return Traced{{{"d", Grad(total, std::vector{x})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp2, .natural = true});
  EXPECT_EQ(Collectives(local), Counts{});
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 12) << Print(local.graph);
}

// ---- Point 4: stored and used placements. ----

struct LayerSize {
  int64_t rows = 4, in = 6, out = 4;
};
Graph FsdpLayer(bool regather, DType compute = kF64, const LayerSize& n = {}) {
  return test::Trace([=] {
    Var w = ParameterLeaf("w", kF64, {n.in, n.out}, {S(0)}), x = Leaf("x", kF64, {n.rows, n.in}, {S(0)});
    Attrs attrs{{"target", Sharding{R}}, {"regather", regather}};
    Var used = EmitOne(Op::kReshard, attrs, {Cast(w, compute)}, Loc::current());
    Var y = Einsum("bi,io->bo", Cast(x, compute), used);
    Var loss = SumAll(Cast(Exp(y), kF64));
    return Traced{{{"loss", loss}, {"dx", Grad(loss, std::vector{x})[0]}},
                  {{"w", w - Scale(Grad(loss, std::vector{w})[0], 0.1)}}};
  });
}

TEST(Fsdp, GathersOnceForwardAndScattersOnceBackward) {
  LocalProgram local = Partition(FsdpLayer(false), {.mesh = kTp2, .natural = true});
  EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 1}, {"reduce_scatter", 1}})) << Print(local.graph);
  ExpectSameOnRanks(FsdpLayer(false), kTp2, {{"w", Draw({6, 4}, 1)}, {"x", Draw({4, 6}, 2)}});
}

// Point 1, no cost search: the weight is gathered and its gradient scattered, and no activation moves, though for the
// large weight moving the few rows would take fewer bytes. Without a reshard the two shards are an error.
TEST(Fsdp, WeightsAreGatheredAndActivationsNeverMoveWhateverTheSizes) {
  for (const LayerSize& n : {LayerSize{2, 640, 480}, LayerSize{2, 64, 1}, LayerSize{4096, 6, 4}, LayerSize{1, 7, 5}})
    for (const MeshShape& mesh : {MeshShape{{"dp"}, {2}}, MeshShape{{"dp"}, {4}}}) {
      LocalProgram local = Partition(FsdpLayer(true, kF64, n), {.mesh = mesh, .natural = true});
      EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 2}, {"reduce_scatter", 1}})) << Print(local.graph);
      for (const auto& node : local.graph.nodes) {
        if (test::IsCollective(node->op)) {
          EXPECT_EQ(node->outputs[0].global, (Shape{n.in, n.out})) << Print(local.graph);
        }
      }
      Graph bare = test::Trace([&] {
        Var w = ParameterLeaf("w", kF64, {n.in, n.out}, {S(0)}), x = Leaf("x", kF64, {n.rows, n.in}, {S(0)});
        return Traced{{{"y", Einsum("bi,io->bo", x, w)}}};
      });
      EXPECT_THAT(ErrorOf([&] { Partition(bare, {.mesh = mesh}); }), HasSubstr("reshard one of them"));
    }
}

TEST(Fsdp, RegatherGathersAgainBackward) {
  LocalProgram local = Partition(FsdpLayer(true), {.mesh = kTp2, .natural = true});
  EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 2}, {"reduce_scatter", 1}})) << Print(local.graph);
  EXPECT_EQ(Collectives(local, Phase::kBackward),
            (Counts{{"all_gather", 1}}));  // the gradient reduces where the update reads it
  ExpectSameOnRanks(FsdpLayer(true), kTp2, {{"w", Draw({6, 4}, 1)}, {"x", Draw({4, 6}, 2)}});
}

// The bf16 value is gathered; the gradient reduces in the parameter's own type.
TEST(Fsdp, GathersTheNarrowValueAndReducesInTheWideOne) {
  LocalProgram local = Partition(FsdpLayer(false, DType::kBF16), {.mesh = kTp2, .natural = true});
  for (const auto& node : local.graph.nodes) {
    if (test::IsCollective(node->op)) {
      EXPECT_EQ(node->outputs[0].dtype, node->op == Op::kAllGather ? DType::kBF16 : kF64);
    }
  }
  EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 1}, {"reduce_scatter", 1}}));
}

TEST(Fsdp, ARegatherOfARegatherWorks) {
  Graph graph = test::Trace([] {
    Var w = ParameterLeaf("w", kF64, {6, 4}, {S(0), S(1)});
    Var half = EmitOne(Op::kReshard, {{"target", Sharding{R, S(1)}}, {"regather", 1}}, {w}, Loc::current());
    Var full = EmitOne(Op::kReshard, {{"target", Sharding{R, R}}, {"regather", 1}}, {half}, Loc::current());
    Var loss = SumAll(Exp(full));
    return Traced{{{"loss", loss}, {"d", Grad(loss, std::vector{w})[0]}}};
  });
  ExpectSameOnRanks(graph, kDp2Tp2, {{"w", Draw({6, 4}, 1)}});
}

// ---- Point 5: the order of axes. ----

// Nested chunks come from the chunk, not from the extent: 10 over tp 4 is 3, and a dp of 2 makes 2 of it.
TEST(AxisOrder, NestedChunksComeFromTheChunk) {
  MeshShape mesh{{"dp", "tp"}, {2, 4}};
  Sharding tp_major{S(0, 1), S(0, 0)};
  EXPECT_EQ(ChunkSize(10, {1}, mesh), 3);
  EXPECT_EQ(ChunkSize(10, tp_major.DimAxes(0), mesh), 2);
  int64_t want[4][2][2] = {
      {{0, 2}, {2, 1}}, {{3, 2}, {5, 1}}, {{6, 2}, {8, 1}}, {{9, 1}, {10, 0}}};  // [tp][dp]: offset, extent
  for (int tp = 0; tp < 4; tp++)
    for (int dp = 0; dp < 2; dp++) {
      DimShard shard = ShardOfDim(10, tp_major.DimAxes(0), mesh, {dp, tp});
      EXPECT_EQ(shard.capacity, 2);
      EXPECT_EQ(shard.extent, want[tp][dp][1]);
      EXPECT_TRUE(shard.extent == 0 || shard.offset == want[tp][dp][0]);
    }
}

// The innermost axis alone can be gathered alone; FSDP is innermost so that its gather is contiguous.
TEST(AxisOrder, TheInnermostAxisIsGatheredAlone) {
  Graph graph = test::Trace([] {
    Var w = Leaf("w", kF64, {10, 3}, {S(0, 1), S(0, 0)});
    return Traced{{{"y", Reshard(w, {R, S(0)})}}};
  });
  MeshShape mesh{{"dp", "tp"}, {2, 4}};
  LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
  EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 1}}));
  EXPECT_EQ(Collectives(local, {}, 0), (Counts{{"all_gather", 1}}));
  ExpectSameOnRanks(graph, mesh, {{"w", Draw({10, 3}, 1)}});
}

// PT#129229: full_tensor was wrong where FSDP and TP shard one dim. PT#194457, #186282: uneven shards through a gather
// over two axes came back corrupted. PT#168134: the chunks of five elements over 2 x 2 had gaps. PT#115310: such a
// gather hung or had the wrong size. Every extent, both orders, all elements distinct.
TEST(AxisOrder, PT129229_PT194457_PT168134_PT115310_FullTensorWhereTwoAxesShardOneDimUnevenly) {
  for (const std::vector<int>& sizes : {std::vector{2, 2}, std::vector{2, 4}, std::vector{2, 3}, std::vector{3, 2}}) {
    MeshShape mesh{{"dp", "tp"}, sizes};
    for (const Sharding& s : {Sharding{S(0, 1), S(0, 0)}, Sharding{S(0, 0), S(0, 1)}, Sharding{S(1, 1), S(1, 0)}}) {
      Values leaves;
      for (int n = 0; n <= 13; n++)
        leaves[std::to_string(n)] = Draw(s[0].dim ? Shape{2, n} : Shape{n, 2}, uint64_t(n) + 1);
      Graph graph = test::Trace([&] {
        Traced traced;
        for (auto& [name, value] : leaves)
          traced.outputs.push_back({"full" + name, Leaf(name, kF64, value.shape(), s)});
        return traced;
      });
      ExpectSameOnRanks(graph, mesh, leaves, 0);
    }
  }
}

// ---- Point 6: heads, views. ----

// PT#149764, #166483, #172102: a view passes a shard only where chunk boundaries coincide; elsewhere it is gathered,
// and the values are right.
TEST(Views, PT149764_MergeAndSplitOfAShardedDim) {
  struct Row {
    Shape in;
    int inner;
    bool coincides;
  };
  for (const Row& row :
       {Row{{4, 3}, 3, true}, Row{{5, 3}, 3, true}, Row{{3, 2}, 2, true}, Row{{1, 4}, 4, false}, Row{{2, 8}, 8, true}})
    for (int tp : {2, 4}) {
      MeshShape mesh{{"tp"}, {tp}};
      Graph merge = test::Trace([&] { return Traced{{{"y", Merge(Leaf("x", kF64, row.in, {S(0)}), 0)}}}; });
      Shape flat{row.in[0] * row.inner};
      Graph split = test::Trace([&] { return Traced{{{"y", Split(Leaf("x", kF64, flat, {S(0)}), 0, row.inner)}}}; });
      int64_t outer = row.in[0], chunk = (outer + tp - 1) / tp;
      bool coincides = chunk * row.inner == (outer * row.inner + tp - 1) / tp;
      EXPECT_EQ(NaturalPlacement(merge, mesh), coincides ? Sharding{S(0)} : Sharding{R})
          << ToString(row.in) << " tp " << tp;
      EXPECT_EQ(NaturalPlacement(split, mesh), coincides ? Sharding{S(0)} : Sharding{R})
          << ToString(row.in) << " tp " << tp;
      EXPECT_EQ(Collectives(Partition(merge, {.mesh = mesh, .natural = true})),
                coincides ? Counts{} : (Counts{{"all_gather", 1}}));
      ExpectSameOnRanks(merge, mesh, {{"x", Draw(row.in, 1)}}, 0);
      ExpectSameOnRanks(split, mesh, {{"x", Draw(flat, 1)}}, 0);
    }
}

// The inner dim of a merge is interleaved in the result: a shard of it is gathered, never passed on.
TEST(Views, PT166483_AShardOfTheInnerDimOfAMergeIsGathered) {
  Graph graph = test::Trace([] { return Traced{{{"y", Merge(Leaf("x", kF64, {3, 4}, {S(1)}), 0)}}}; });
  EXPECT_EQ(NaturalPlacement(graph, kTp2), Sharding{R});
  ExpectSameOnRanks(graph, kTp2, {{"x", Draw({3, 4}, 1)}}, 0);
}

// PT#179502: [12, 8] sharded over its columns, seen as [16, 6], kept a shard of the rows without moving anything.
TEST(Views, PT179502_AViewThroughAMergeAndASplitIsGathered) {
  Graph graph = test::Trace([] { return Traced{{{"y", Split(Merge(Leaf("x", kF64, {12, 8}, {S(1)}), 0), 0, 6)}}}; });
  EXPECT_EQ(NaturalPlacement(graph, kTp4), Sharding{R});
  EXPECT_EQ(Collectives(Partition(graph, {.mesh = kTp4})), (Counts{{"all_gather", 1}}));
  ExpectSameOnRanks(graph, kTp4, {{"x", Draw({12, 8}, 1)}}, 0);
}

Graph AttentionGraph(int64_t heads, int64_t kv_heads, const Placement& kv, double scale = 0.5, int64_t offset = 0) {
  return test::Trace([=] {
    std::vector<Var> in{Leaf("q", kF64, {2, 5, heads, 4}, {S(2)}), Leaf("k", kF64, {2, 5, kv_heads, 4}, {kv}),
                        Leaf("v", kF64, {2, 5, kv_heads, 4}, {kv})};
    Var out = Sdpa(in[0], in[1], in[2], {.causal = true, .causal_offset = offset, .scale = scale});
    std::vector<Var> d = Grad(SumAll(out * out), in);
    return Traced{{{"out", out}, {"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}}};
  });
}

// transformers#47811: KV heads that tp does not divide were refused or wrong. The groups are replicated and dK, dV are
// Partial; where chunks coincide K and V stay sharded and nothing moves.
TEST(Attention, HF47811_KvHeadsFewerThanTpRanks) {
  struct Row {
    int64_t heads, kv_heads;
    int tp;
    bool stays;
  };
  for (const Row& row :
       {Row{4, 1, 4, false}, Row{4, 2, 4, false}, Row{8, 2, 4, false}, Row{6, 2, 4, false}, Row{6, 3, 2, false},
        Row{4, 4, 4, true}, Row{8, 4, 4, true}, Row{8, 4, 2, true}, Row{6, 3, 3, true}, Row{5, 5, 2, true}}) {
    MeshShape mesh{{"tp"}, {row.tp}};
    Values leaves{{"q", Draw({2, 5, row.heads, 4}, 1)},
                  {"k", Draw({2, 5, row.kv_heads, 4}, 2)},
                  {"v", Draw({2, 5, row.kv_heads, 4}, 3)}};
    for (const Placement& kv : {S(2), R}) {
      Graph graph = AttentionGraph(row.heads, row.kv_heads, kv);
      ExpectSameOnRanks(graph, mesh, leaves);
      Counts forward = Collectives(Partition(graph, {.mesh = mesh, .natural = true}), Phase::kForward);
      EXPECT_EQ(forward, row.stays || kv == R ? Counts{} : (Counts{{"all_gather", 2}}))
          << row.heads << " / " << row.kv_heads << " on " << row.tp;
    }
  }
}

// transformers#46960: attention fell back to memory quadratic in the sequence without a word. Heads, batch or queries
// may be sharded and the fused op stays, forward and backward: no value has both a query and a key dim.
TEST(Attention, HF46960_NeverQuadraticMemoryInSilence) {
  for (int dim : {0, 1, 2, 3})
    for (int kv_heads : {1, 2, 4}) {
      constexpr int64_t kTokens = 32;
      Graph graph = test::Trace([&] {
        std::vector<Var> in{Leaf("q", kF64, {2, kTokens, 4, 2}, {S(dim)}),
                            Leaf("k", kF64, {2, kTokens, kv_heads, 2}, {S(dim)}),
                            Leaf("v", kF64, {2, kTokens, kv_heads, 2}, {S(dim)})};
        return Traced{{{"d", Grad(SumAll(Sdpa(in[0], in[1], in[2], {})), in)[1]}}};
      });
      LocalProgram local = Partition(graph, {.mesh = kTp2, .natural = true});
      EXPECT_TRUE(local.inlined.empty());
      for (const auto& node : local.graph.nodes)
        for (const ValueInfo& info : node->outputs)
          EXPECT_LT(NumElements(info.shape), kTokens * kTokens) << Print(local.graph);
    }
}

// PT#103963: a row that sees no key gave NaN. Its output is 0 and its log-sum-exp -inf; its gradients are 0.
TEST(Attention, PT103963_FullyMaskedRowsAreZeroAndMinusInfinity) {
  Graph graph = test::Trace([] {
    std::vector<Var> in{Leaf("q", kF64, {1, 4, 2, 4}, {S(2)}), Leaf("k", kF64, {1, 4, 2, 4}, {S(2)}),
                        Leaf("v", kF64, {1, 4, 2, 4}, {S(2)})};
    // Query i sees keys j <= i - 2: the first two rows see none.
    Outputs out =
        Emit(Op::kSdpa, {{"causal", 1}, {"causal_offset", -2}, {"scale", 0.5}}, {in[0], in[1], in[2]}, Loc::current());
    std::vector<Var> d = Grad(SumAll(out[0] * out[0]), in);
    return Traced{{{"out", out[0]}, {"lse", out[1]}, {"dq", d[0]}, {"dk", d[1]}, {"dv", d[2]}}};
  });
  Values leaves{{"q", Draw({1, 4, 2, 4}, 1)}, {"k", Draw({1, 4, 2, 4}, 2)}, {"v", Draw({1, 4, 2, 4}, 3)}};
  Values one = RunOneRank(graph, kTp2, leaves);
  std::vector<double> out = one.at("out").ToDoubles(), lse = one.at("lse").ToDoubles(), dq = one.at("dq").ToDoubles();
  for (size_t i = 0; i < 16; i++) {
    EXPECT_EQ(out[i], 0);
    EXPECT_EQ(dq[i], 0);
  }
  for (size_t i = 0; i < 4; i++) EXPECT_EQ(lse[i], -std::numeric_limits<double>::infinity());
  for (auto& [name, value] : one)
    for (double v : value.ToDoubles()) EXPECT_FALSE(std::isnan(v)) << name;
  ExpectSameOnRanks(graph, kTp2, leaves);
}

// PT#116350, #128971, #165530: there was no double backward of fused attention; here it is that of the composition,
// which is partitioned like anything else. The same for a norm over a sharded dim and a loss over a sharded vocabulary.
Traced SecondDerivatives(const Var& y, const std::vector<Var>& in) {
  Var loss;
  for (const Var& d : Grad(SumAll(y * y), in)) loss = loss ? loss + SumAll(Sin(d)) : SumAll(Sin(d));
  Traced traced;
  for (const Var& d : Grad(loss, in)) traced.outputs.push_back({fmt::format("d{}", traced.outputs.size()), d});
  return traced;
}
void ExpectSecondDerivativesOfSdpa(const Sharding& s) {
  Graph graph = test::Trace([&] {
    std::vector<Var> in{Leaf("q", kF64, {2, 4, 4, 2}, s), Leaf("k", kF64, {2, 4, 2, 2}, s),
                        Leaf("v", kF64, {2, 4, 2, 2}, s)};
    return SecondDerivatives(Sdpa(in[0], in[1], in[2], {}), in);
  });
  ExpectSameOnRanks(graph, kDp2Tp2,
                    {{"q", Draw({2, 4, 4, 2}, 1)}, {"k", Draw({2, 4, 2, 2}, 2)}, {"v", Draw({2, 4, 2, 2}, 3)}});
}

TEST(Attention, PT116350_SecondDerivativesOfFusedOpsOnRanks) {
  for (const Sharding& s : {Sharding{S(0), S(2)}, Sharding{S(2), R}, Sharding{S(2, 1), S(2, 0)}})
    ExpectSecondDerivativesOfSdpa(s);
  for (const Sharding& s : {Sharding{S(0), S(1)}, Sharding{S(1), R}, Sharding{S(1, 1), S(1, 0)}}) {
    Graph norm = test::Trace([&] {
      std::vector<Var> in{Leaf("x", kF64, {3, 5}, s), Leaf("w", kF64, {5}, {R, R})};
      return SecondDerivatives(LayerNorm(in[0], in[1], in[1], 1e-5), in);
    });
    ExpectSameOnRanks(norm, kDp2Tp2, {{"x", Draw({3, 5}, 1)}, {"w", Draw({5}, 2)}});
    Graph loss = test::Trace([&] {
      std::vector<Var> in{Leaf("x", kF64, {3, 5}, s)};
      return SecondDerivatives(CrossEntropy(in[0], Leaf("t", DType::kI64, {3}, {R, R}), {.smoothing = 0.1}), in);
    });
    ExpectSameOnRanks(loss, kDp2Tp2, {{"x", Draw({3, 5}, 1)}, {"t", Ids({3}, 5)}});
  }
}

// The composition does not know that sdpa gathers K and V first: with queries and keys both sharded over tokens, its
// first product meets two labels on one axis. Refused in words, never wrong.
TEST(Attention, SecondDerivativesWithQueriesAndKeysShardedOverTokensAreRefused) {
  try {
    ExpectSecondDerivativesOfSdpa({S(1), R});
    FAIL() << "expected a refusal; move this to SecondDerivativesOfFusedOpsOnRanks";
  } catch (const Error& e) {
    EXPECT_THAT(e.what(), testing::AllOf(testing::HasSubstr("operand 0"), testing::HasSubstr("reshard one of them")));
  }
}

// ---- Point 7: uneven shards. ----

// dtensor.md: the mean of uneven shards was the mean of the ranks' means. A mean here is a sum times 1 / the global
// extent.
TEST(Uneven, AMeanIsDividedByTheGlobalExtent) {
  for (int tp : {2, 3, 4})
    for (int64_t n : {1, 3, 5, 7}) {
      Graph graph = test::Trace([&] {
        Var x = Leaf("x", kF64, {n}, {S(0)});
        Var mean = Scale(ReduceSum(x, 0), 1.0 / double(n));
        return Traced{{{"mean", mean}, {"d", Grad(mean * mean, std::vector{x})[0]}}};
      });
      ExpectSameOnRanks(graph, {{"tp"}, {tp}}, {{"x", Draw({n}, 1)}});
    }
}

// A rank that holds nothing is not a special case: every op runs on an empty box, and all ranks have one program.
TEST(Uneven, RanksThatHoldNothingTakePart) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {3, 4}, {S(0)}), w = Leaf("w", kF64, {4}, {R});
    Var y = Softmax(LayerNorm(x, w, w, 1e-5), 1);
    std::vector<Var> d = Grad(SumAll(y * y), std::vector{x, w});
    return Traced{{{"y", y}, {"max", ReduceMax(x, 0)}, {"arg", ArgMax(x, 0)}, {"dx", d[0]}, {"dw", d[1]}}};
  });
  ExpectSameOnRanks(graph, kTp4, {{"x", Draw({3, 4}, 1)}, {"w", Draw({4}, 2)}});
}

// The lowest of equal maxima wins, whichever rank holds it.
TEST(Uneven, ArgMaxOfTiesIsTheLowestIndexOnAnyMesh) {
  Graph graph = test::Trace([] { return Traced{{{"arg", ArgMax(Leaf("x", kF64, {2, 7}, {S(1)}), 1)}}}; });
  Tensor x = Tensor::FromDoubles(std::vector<double>{0, 3, 1, 3, 3, 2, 3, 5, 5, 5, 5, 5, 5, 5}, kF64, {2, 7});
  for (int tp : {1, 2, 3, 4})
    EXPECT_EQ(RunRanks(graph, {{"tp"}, {tp}}, {{"x", x}}).at("arg").ToDoubles(), (std::vector<double>{1, 0}));
}

// ---- Cross-entropy over a sharded vocabulary. ----

// ML#737: label smoothing was wrong over a sharded vocabulary. ML#1754: a vocabulary that tp does not divide gave large
// errors. Loss and gradient, with ignored targets, for both.
TEST(CrossEntropy, ML737_ML1754_SmoothingAndAVocabularyThatTpDoesNotDivide) {
  for (double smoothing : {0.0, 0.1})
    for (int64_t vocab : {3, 5, 8, 9})
      for (int tp : {2, 3, 4}) {
        Graph graph = test::Trace([&] {
          Var x = Leaf("x", kF64, {2, 3, vocab}, {S(2)}), t = Leaf("t", DType::kI64, {2, 3}, {R});
          Var loss = CrossEntropy(x, t, {.smoothing = smoothing});
          return Traced{{{"loss", loss}, {"dx", Grad(SumAll(loss), std::vector{x})[0]}}};
        });
        Tensor targets = Ids({2, 3}, vocab);
        targets.as<int64_t>()[4] = -100;
        ExpectSameOnRanks(graph, {{"tp"}, {tp}}, {{"x", Draw({2, 3, vocab}, 1)}, {"t", targets}});
      }
}

// Three small all-reduces forward (max, sum of exponentials, picked logit), none backward, and never the logits.
TEST(CrossEntropy, OverAShardedVocabularyMovesOnlyRows) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {2, 3, 8}, {S(2)}), t = Leaf("t", DType::kI64, {2, 3}, {R});
    Var loss = CrossEntropy(x, t);
    return Traced{{{"loss", SumAll(loss)}, {"dx", Grad(SumAll(loss), std::vector{x})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp2, .natural = true});
  EXPECT_EQ(Collectives(local), (Counts{{"all_reduce", 3}})) << Print(local.graph);
  EXPECT_EQ(Collectives(local, Phase::kBackward), Counts{});
  for (const auto& node : local.graph.nodes)
    EXPECT_TRUE(!test::IsCollective(node->op) || NumElements(node->outputs[0].shape) <= 6);
  ASSERT_EQ(local.inlined.size(), 2u);
  EXPECT_THAT(local.inlined[0], HasSubstr("cross_entropy at traps_test.cc"));
}

// The table's rows on tp: a Partial embedding, and a gradient that stays where its rows are.
TEST(Embedding, RowsNotHeldGiveZeroAndTheirGradientStaysSharded) {
  Graph graph = test::Trace([] {
    Var table = ParameterLeaf("table", kF64, {7, 3}, {S(0)}), ids = Leaf("ids", DType::kI64, {2, 4}, {R});
    Var x = Embedding(table, ids);
    return Traced{{{"x", x}, {"d", Grad(SumAll(x * x), std::vector{table})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp4, .natural = true});
  EXPECT_EQ(Collectives(local), (Counts{{"all_reduce", 1}}));
  ExpectSameOnRanks(graph, kTp4, {{"table", Draw({7, 3}, 1)}, {"ids", Ids({2, 4}, 7)}});
}

// ---- Random numbers. ----

// PT#168058: random init and dropout changed with the mesh; and random ops of DTensor failed on the CPU. Bit-equal
// here, whatever the placement of the result, forward and backward.
TEST(Random, PT168058_InitAndDropoutAreBitEqualOnEveryMesh) {
  const std::vector<Sharding> placements{{R, R},       {S(0), R},          {R, S(1)},          {S(0), S(1)},
                                         {S(1), S(0)}, {S(0, 1), S(0, 0)}, {S(1, 1), S(1, 0)}, {S(2), S(0)}};
  for (const Sharding& placement : placements) {
    Graph graph = test::Trace([&] {
      Var x = Leaf("x", kF64, {5, 6, 7}, placement), dropped = Dropout(x, 0.3);
      Var normal = Reshard(RandomNormal(kF64, {5, 6, 7}), placement),
          uniform = Reshard(RandomUniform(DType::kF32, {5, 6, 7}), placement);
      return Traced{{{"dropped", dropped},
                     {"normal", normal},
                     {"uniform", uniform},
                     {"sum", normal + x},
                     {"d", Vjp(std::vector{dropped}, std::vector{x}, std::vector{x})[0]}}};
    });
    for (const MeshShape& mesh :
         {MeshShape{{"a", "b"}, {2, 2}}, MeshShape{{"a", "b"}, {2, 3}}, MeshShape{{"a", "b"}, {4, 1}}})
      ExpectSameOnRanks(graph, mesh, {{"x", Draw({5, 6, 7}, 1)}}, 0);
  }
}

// design.md section 6: a micro-batch draws what its rows of the whole batch draw.
TEST(Random, MicroBatchesDrawTheirRowsOfTheGlobalBatch) {
  auto draw = [](int64_t rows) {
    return test::Trace([&] {
      return Traced{{{"d", Dropout(Full(1.0, kF64, {rows, 3, 6}), 0.4)}, {"n", RandomNormal(kF64, {rows, 5})}}};
    });
  };
  auto at = [](int64_t row) {
    return Values{{"first_row", Tensor::Scalar(double(row), DType::kI64)}, {"step", Tensor::Scalar(3, DType::kI64)}};
  };
  Values whole = RunOneRank(draw(7), kTp2, at(0));
  for (const char* name : {"d", "n"}) {
    std::vector<double> parts;
    for (auto [first, rows] : {std::pair<int64_t, int64_t>{0, 3}, {3, 3}, {6, 1}}) {
      std::vector<double> part = RunRanks(draw(rows), kTp2, at(first)).at(name).ToDoubles();
      parts.insert(parts.end(), part.begin(), part.end());
    }
    EXPECT_EQ(parts, whole.at(name).ToDoubles()) << name;
  }
}

// Two random ops of one module, and the same op in two modules, draw differently; a second trace draws the same.
TEST(Random, EveryOpOfEveryModuleHasItsOwnStream) {
  auto build = [] {
    Traced traced{{{"a", RandomNormal(kF64, {4})}, {"b", RandomNormal(kF64, {4})}}};
    ModuleScope scope("m");
    traced.outputs.push_back({"c", RandomNormal(kF64, {4})});
    return traced;
  };
  Values one = RunOneRank(test::Trace(build), kTp2, {}), again = RunOneRank(test::Trace(build), kTp2, {}),
         other = RunOneRank(test::Trace(build, 8), kTp2, {});
  for (const char* name : {"a", "b", "c"}) {
    EXPECT_EQ(one.at(name).ToDoubles(), again.at(name).ToDoubles());
    EXPECT_NE(one.at(name).ToDoubles(), other.at(name).ToDoubles());
  }
  EXPECT_NE(one.at("a").ToDoubles(), one.at("b").ToDoubles());
  EXPECT_NE(one.at("a").ToDoubles(), one.at("c").ToDoubles());
}

// ---- Points 8 and 9: accumulation and the clip norm. ----

// A zero is born Partial, and an accumulator that is Partial takes gradients with no collective.
TEST(Accumulation, PartialAccumulatorsMoveNothing) {
  Graph graph = test::Trace([] {
    Var w = ParameterLeaf("w", kF64, {4, 3}, {R}), x = Leaf("x", kF64, {6, 4}, {S(0)});
    Var g = Grad(SumAll(Exp(Einsum("bi,io->bo", x, w))), std::vector{w})[0];
    return Traced{{}, {{"acc", Leaf("acc", kF64, {4, 3}, {P}) + g}, {"zero", Full(0, kF64, {4, 3})}}};
  });
  std::map<std::string, Sharding> wanted{{"zero", {P}}};
  LocalProgram local = Partition(graph, {.mesh = kTp2, .wanted = wanted});
  for (const NamedValue& write : local.graph.writes)
    EXPECT_EQ(write.value.node().outputs[0].sharding, Sharding{P}) << write.name;
  EXPECT_EQ(Collectives(local), Counts{}) << Print(local.graph);
}

TEST(Accumulation, MicroStepsAddUpToTheWholeBatch) {
  auto step = [](int64_t rows, bool accumulate) {
    return test::Trace([=] {
      Var w = ParameterLeaf("w", kF64, {4, 3}, {R, S(1)}), x = Leaf("x", kF64, {rows, 4}, {S(0), R});
      Var g = Grad(SumAll(Exp(Einsum("bi,io->bo", x, w))), std::vector{w})[0];
      if (accumulate) g = Leaf("acc", kF64, {4, 3}, {P, S(1)}) + g;
      return Traced{{}, {{"acc", g}}};
    });
  };
  Tensor w = Draw({4, 3}, 1), x = Draw({8, 4}, 2);
  Tensor first(x.buffer(), 0, kF64, {4, 4}), second(x.buffer(), 4 * 4 * 8, kF64, {4, 4});
  PartitionOptions partial{.wanted = {{"acc", {P, S(1)}}}};
  Values half = RunRanks(step(4, false), kDp2Tp2, {{"w", w}, {"x", first}}, partial);
  Values whole = RunRanks(step(4, true), kDp2Tp2, {{"w", w}, {"x", second}, {"acc", half.at("acc")}});
  Values want = RunOneRank(step(8, false), kDp2Tp2, {{"w", w}, {"x", x}});
  EXPECT_LE(test::LargestDifference(whole.at("acc"), want.at("acc")), 1e-12 * 100);  // sums of 8 exponentials below 100
}

// PT#180346: clipping over parameters of several placements failed. Each gradient counts once, replicated ones too,
// with one scalar all-reduce an axis.
TEST(ClipNorm, PT180346_ReplicatedGradientsCountOnceWithOneAllReducePerAxis) {
  const std::vector<Sharding> placements{{R, R},    {S(0), R}, {R, S(0)}, {S(0), S(1)}, {S(0, 1), S(0, 0)},
                                         {R, S(1)}, {R, R}};
  Graph graph = test::Trace([&] {
    Var total;
    for (size_t i = 0; i < placements.size(); i++) {
      Var part = Reshard(SumOfSquares(Leaf(fmt::format("g{}", i), kF64, {5, 3}, placements[i])), {P, P});
      total = total ? total + part : part;
    }
    return Traced{{{"norm", Sqrt(total)}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kDp2Tp2});
  for (int axis : {0, 1}) EXPECT_EQ(Collectives(local, {}, axis), (Counts{{"all_reduce", 1}})) << Print(local.graph);
  Values leaves;
  for (size_t i = 0; i < placements.size(); i++) leaves[fmt::format("g{}", i)] = Draw({5, 3}, i + 1);
  ExpectSameOnRanks(graph, kDp2Tp2, leaves);
}

// A Partial gradient is summed before it is squared.
TEST(ClipNorm, APartialGradientIsReducedBeforeItIsSquared) {
  Graph graph = test::Trace([] { return Traced{{{"norm", SumOfSquares(Leaf("g", kF64, {4}, {P}))}}}; });
  ExpectSameOnRanks(graph, kTp2, {{"g", Draw({4}, 1)}});
}

// ---- Point 10: generators. ----

// No local node is larger than the chunk of some sharding of its value, but gathers: iota, full, random numbers and
// broadcasts are made in their consumers' placement.
TEST(Generators, NoLocalNodeIsLargerThanItsChunk) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {8, 6, 4}, {S(0), S(2)}), b = Leaf("b", kF64, {4}, {R, S(0)});
    Var mask = Le(Iota(1, DType::kI64, {8, 6, 4}), Full(3.0, DType::kI64, {8, 6, 4}));
    Var noise = RandomNormal(kF64, {8, 6, 4});
    Var y = Select(mask, x + b, noise * Full(0.5, kF64, {8, 6, 4}));
    Var z = CrossEntropy(y, Cast(Leaf("t", DType::kI64, {8, 6}, {S(0), R}), DType::kI64));
    return Traced{{{"loss", SumAll(z)}, {"d", Grad(SumAll(z), std::vector{x, b})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kDp2Tp2, .natural = true});
  // Whole: 192 elements of [8, 6, 4] in 4 chunks of 48; [8, 6] is at most 24.
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 48) << Print(local.graph);
  ExpectSameOnRanks(graph, kDp2Tp2, {{"x", Draw({8, 6, 4}, 1)}, {"b", Draw({4}, 2)}, {"t", Ids({8, 6}, 4)}});
}

// The cotangent of a loss is a broadcast of one: it is born in shards.
TEST(Generators, TheSeedOfAGradientIsBornSharded) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {64, 64}, {S(0)});
    return Traced{{{"d", Grad(SumAll(x), std::vector{x})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp4, .natural = true});
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 64 * 16) << Print(local.graph);
}

// ---- Point 12: every collective has a line, a scope and a phase. ----

TEST(CommunicationPlan, EveryCollectiveNamesItsLineScopeAndPhase) {
  Counts seen, want;
  for (const CommLine& l : CommPlan(Partition(MegatronMlp(true), {.mesh = kTp2, .natural = true}))) {
    EXPECT_THAT(l.line, HasSubstr("traps_test.cc:"));
    EXPECT_EQ(l.axis_name, "tp");
    seen[fmt::format("{} {} {}", l.scope, Name(l.phase), Name(l.op))]++;
  }
  for (const char* scope : {"layers.0", "layers.1"})
    for (Phase phase : {Phase::kForward, Phase::kBackward})
      for (Op op : {Op::kAllGather, Op::kReduceScatter})
        want[fmt::format("{} {} {}", scope, Name(phase), Name(op))] = 1;
  EXPECT_EQ(seen, want);
}

std::string Text(const std::vector<PlannedView>& views) {
  std::string text;
  for (const PlannedView& v : views)
    text += fmt::format(" {}{}[{}]", int(v.place.kind), v.place.entry, v.view.CapacityElements());
  return text;
}

// All ranks run the same steps on the same sizes, also those that hold less or nothing: one that left a collective out
// would hang the others. A kernel may take less scratch for fewer rows, so offsets in the arena are a rank's own.
TEST(CommunicationPlan, IsTheSameOnRanksThatHoldLessOrNothing) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {5, 3}, {S(0)}), w = Leaf("w", kF64, {3}, {R});
    Var y = Softmax(LayerNorm(x, w, w, 1e-5), 1);
    std::vector<Var> d = Grad(SumAll(y * y), std::vector{x, w});
    return Traced{{{"y", y}, {"dx", d[0]}, {"dw", d[1]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp4});  // 2, 2, 1 and 0 rows
  std::vector<std::string> plans(4);
  test::OnRanks(kTp4, [&](const Runtime& runtime) {
    Plan plan = MakePlan(local, runtime);
    std::string& text = plans[size_t(runtime.context->rank())];
    for (const Step& s : plan.steps)
      text += fmt::format("{} {}:{} ->{}\n", Name(s.node->op), ToString(s.node->attrs), Text(s.in), Text(s.out));
    text += fmt::format("{} copies", plan.copies.size());
  });
  EXPECT_THAT(plans[0], AllOf(HasSubstr("all_gather"), HasSubstr("all_reduce")));
  for (const std::string& plan : plans) EXPECT_EQ(plan, plans[0]);
}

}  // namespace
}  // namespace weft
