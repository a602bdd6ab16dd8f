// Tests of where values are stored: stored and used placements, the order of axes, uneven shards, accumulators and
// generators.
#include "parallel/traps.h"
#include "weft/core/base/shard.h"
#include "weft/core/ir/collective_row.h"

namespace weft {
namespace {

using namespace traps;

// ---- Stored and used placements. ----

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

// There is no cost search. The weight is gathered, its gradient is scattered and no activation moves, although for the
// large weight it would take fewer bytes to move the few rows. Without a reshard the two shards are an error.
TEST(Fsdp, WeightsAreGatheredAndActivationsNeverMoveWhateverTheSizes) {
  for (const LayerSize& n : {LayerSize{2, 640, 480}, LayerSize{2, 64, 1}, LayerSize{4096, 6, 4}, LayerSize{1, 7, 5}})
    for (const MeshShape& mesh : {MeshShape{{"dp"}, {2}}, MeshShape{{"dp"}, {4}}}) {
      LocalProgram local = Partition(FsdpLayer(true, kF64, n), {.mesh = mesh, .natural = true});
      EXPECT_EQ(Collectives(local), (Counts{{"all_gather", 2}, {"reduce_scatter", 1}})) << Print(local.graph);
      for (const auto& node : local.graph.nodes) {
        if (IsCollective(node->op)) {
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
            (Counts{{"all_gather", 1}}));  // the gradient is reduced where the update reads it
  ExpectSameOnRanks(FsdpLayer(true), kTp2, {{"w", Draw({6, 4}, 1)}, {"x", Draw({4, 6}, 2)}});
}

// The bf16 value is gathered. The gradient is reduced in the parameter's own type.
TEST(Fsdp, GathersTheNarrowValueAndReducesInTheWideOne) {
  LocalProgram local = Partition(FsdpLayer(false, DType::kBF16), {.mesh = kTp2, .natural = true});
  for (const auto& node : local.graph.nodes) {
    if (IsCollective(node->op)) {
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

// ---- The order of axes. ----

// A nested chunk size is computed from the outer chunk size, not from the extent: 10 over tp = 4 is 3, and dp = 2 cuts
// that into chunks of 2.
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

// Only the innermost axis can be gathered by itself. FSDP is the innermost axis, so its gather is contiguous.
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

// PT#129229: full_tensor was wrong if FSDP and TP sharded one dim. PT#194457, #186282: a gather of uneven shards over
// two axes corrupted them. PT#168134: the chunks of five elements over 2 x 2 had gaps. PT#115310: such a gather hung or
// had the wrong size. The test runs extents up to 13 and both orders, with distinct elements.
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

// ---- Uneven shards. ----

// In other frameworks the mean of uneven shards was the mean of the ranks' means. Here a mean is a sum times 1 / the
// global extent.
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

// A rank that holds nothing is no special case: every op runs on an empty box, and all ranks have one program.
TEST(Uneven, RanksThatHoldNothingTakePart) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {3, 4}, {S(0)}), w = Leaf("w", kF64, {4}, {R});
    Var y = Softmax(LayerNorm(x, w, w, 1e-5), 1);
    std::vector<Var> d = Grad(SumAll(y * y), std::vector{x, w});
    return Traced{{{"y", y}, {"max", ReduceMax(x, 0)}, {"arg", ArgMax(x, 0)}, {"dx", d[0]}, {"dw", d[1]}}};
  });
  ExpectSameOnRanks(graph, kTp4, {{"x", Draw({3, 4}, 1)}, {"w", Draw({4}, 2)}});
}

// Among equal maxima the lowest index wins, whichever rank holds it.
TEST(Uneven, ArgMaxOfTiesIsTheLowestIndexOnAnyMesh) {
  Graph graph = test::Trace([] { return Traced{{{"arg", ArgMax(Leaf("x", kF64, {2, 7}, {S(1)}), 1)}}}; });
  Tensor x = Tensor::FromDoubles(std::vector<double>{0, 3, 1, 3, 3, 2, 3, 5, 5, 5, 5, 5, 5, 5}, kF64, {2, 7});
  for (int tp : {1, 2, 3, 4})
    EXPECT_EQ(RunRanks(graph, {{"tp"}, {tp}}, {{"x", x}}).at("arg").ToDoubles(), (std::vector<double>{1, 0}));
}

// NaN counts as the largest value, as for Sort, so the index is in range.
TEST(Uneven, ArgMaxOfNaNIsTheFirstOnAnyMesh) {
  Graph graph = test::Trace([] { return Traced{{{"arg", ArgMax(Leaf("x", kF64, {2, 7}, {S(1)}), 1)}}}; });
  Tensor x = Tensor::FromDoubles(std::vector<double>{0, 9, NAN, 3, 3, NAN, 3, 5, 5, 5, 5, 5, 5, NAN}, kF64, {2, 7});
  for (int tp : {1, 2, 3, 4})
    EXPECT_EQ(RunRanks(graph, {{"tp"}, {tp}}, {{"x", x}}).at("arg").ToDoubles(), (std::vector<double>{2, 6}));
}

// ---- Accumulation and the clip norm. ----

// A zero is created as Partial, and a Partial accumulator adds gradients without a collective.
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

// PT#180346: clipping failed with parameters of several placements. Here each gradient counts once, also a replicated
// one, and each axis has one all-reduce of a scalar.
TEST(ClipNorm, PT180346_ReplicatedGradientsCountOnceWithOneAllReducePerAxis) {
  const std::vector<Sharding> placements{{R, R},    {S(0), R}, {R, S(0)}, {S(0), S(1)}, {S(0, 1), S(0, 0)},
                                         {R, S(1)}, {R, R}};
  Graph graph = test::Trace([&] {
    Var total;
    for (size_t i = 0; i < placements.size(); i++) {
      Var part = Reshard(SumOfSquares(Leaf(fmt::format("g{}", i), kF64, {5, 3}, placements[i])), {P, P});
      total = total.defined() ? total + part : part;
    }
    return Traced{{{"norm", Sqrt(total)}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kDp2Tp2});
  for (int axis : {0, 1}) EXPECT_EQ(Collectives(local, {}, axis), (Counts{{"all_reduce", 1}})) << Print(local.graph);
  Values leaves;
  for (size_t i = 0; i < placements.size(); i++) leaves[fmt::format("g{}", i)] = Draw({5, 3}, i + 1);
  ExpectSameOnRanks(graph, kDp2Tp2, leaves);
}

// A Partial gradient is summed over ranks before it is squared.
TEST(ClipNorm, APartialGradientIsReducedBeforeItIsSquared) {
  Graph graph = test::Trace([] { return Traced{{{"norm", SumOfSquares(Leaf("g", kF64, {4}, {P}))}}}; });
  ExpectSameOnRanks(graph, kTp2, {{"g", Draw({4}, 1)}});
}

// ---- Generators. ----

// Except for gathers, no local node is larger than the chunk of some sharding of its value. Iota, full, random numbers
// and broadcasts are created in the placement of their consumers.
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
  // The whole tensor [8, 6, 4] has 192 elements, in 4 chunks of 48. A [8, 6] has at most 24 per chunk.
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 48) << Print(local.graph);
  ExpectSameOnRanks(graph, kDp2Tp2, {{"x", Draw({8, 6, 4}, 1)}, {"b", Draw({4}, 2)}, {"t", Ids({8, 6}, 4)}});
}

// The cotangent of a loss is a broadcast of one, and it is created in shards.
TEST(Generators, TheSeedOfAGradientIsBornSharded) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {64, 64}, {S(0)});
    return Traced{{{"d", Grad(SumAll(x), std::vector{x})[0]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp4, .natural = true});
  for (const auto& node : local.graph.nodes)
    for (const ValueInfo& info : node->outputs) EXPECT_LE(NumElements(info.shape), 64 * 16) << Print(local.graph);
}

}  // namespace
}  // namespace weft
