// Tests of the sharding rules: which placements they choose, and what they refuse.
#include "parallel/traps.h"
#include "weft/core/compile/comm_plan.h"
#include "weft/core/compile/plan.h"

namespace weft {
namespace {

using namespace traps;

// ---- Axis by axis, no search; conflicts are errors; the explicit mode. ----

TEST(Rules, AConflictNamesOpOperandsPlacementsAndLine) {
  int line = 0;
  auto build = [&] {
    Var a = Leaf("a", kF64, {4, 6}, {S(0)}), b = Leaf("b", kF64, {4, 6}, {S(1)});
    ModuleScope scope("block.3");
    line = __LINE__ + 1;
    return Traced{{{"y", a * b}}};
  };
  Graph graph = test::Trace(build);
  EXPECT_EQ(
      ErrorOf([&] { Partition(graph, {.mesh = kTp2}); }),
      fmt::format("mul at rule_traps_test.cc:{} in block.3: operand 0 [4, 6] is S(0) on axis \"tp\" but operand 1 [4, "
                  "6] is S(1); reshard one of them",
                  line));
}

// Different mesh axes may shard different dims of the operands without a conflict.
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
  EXPECT_EQ(error, fmt::format("exp at rule_traps_test.cc:{}: needs [4] as (R) but it is (P(sum)): all_reduce on axis "
                               "\"tp\" would be inserted; "
                               "reshard it explicitly",
                               line));
  Graph explicit_graph = test::Trace([] {
    Var x = Leaf("x", kF64, {4, 6}, {S(1)});
    return Traced{{{"y", Exp(Reshard(ReduceSum(x, 1), {R}))}}};
  });
  EXPECT_EQ(Collectives(Partition(explicit_graph, {.mesh = kTp2, .check = true})), (Counts{{"all_reduce", 1}}));
}

// A local slice costs nothing and is no collective, so the explicit mode allows it.
TEST(Rules, TheExplicitModeAllowsALocalSlice) {
  Graph graph = test::Trace([] { return Traced{{{"y", Leaf("a", kF64, {4}, {S(0)}) + Leaf("b", kF64, {4}, {R})}}}; });
  EXPECT_EQ(Collectives(Partition(graph, {.mesh = kTp2, .check = true, .natural = true})), Counts{});
}

TEST(Rules, AShardOfADimThatIsNotThereIsRefused) {
  for (int dim : {-1, 2, 7}) {
    EXPECT_THAT(
        ErrorOf([&] { test::Trace([&] {
                        return Traced{{{"y", Exp(Leaf("x", kF64, {4, 6}, {S(dim)}))}}};
                      }); }),
        AllOf(HasSubstr("leaf at rule_traps_test.cc"), HasSubstr(fmt::format("S({})", dim)), HasSubstr("[4, 6]")));
    EXPECT_THAT(ErrorOf([&] {
                  test::Trace([&] { return Traced{{{"y", Reshard(Leaf("x", kF64, {4, 6}, {R}), {S(dim)})}}}; });
                }),
                HasSubstr("reshard at rule_traps_test.cc"));
  }
}

TEST(Rules, APlacementOfAnotherNumberOfAxesIsRefused) {
  Graph graph = test::Trace([] { return Traced{{{"y", Leaf("x", kF64, {4}, {S(0)})}}}; });
  EXPECT_THAT(ErrorOf([&] { Partition(graph, {.mesh = kDp2Tp2}); }),
              HasSubstr("has 1 axes, the mesh dp=2 x tp=2 has 2"));
}

// ---- Where a Partial may stay. ----

struct PartialCase {
  const char* name;
  std::function<Var(Var p, Var q, Var r)> op;  // p and q are Partial(sum), r is Replicate
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
    // A sum that is cast to f32 rounds each term separately, which costs 6e-8 each.
    ExpectSameOnRanks(graph, kTp2, leaves, std::string(c.name) == "narrowing cast" ? 1e-6 : 1e-12);
  }
}

// A widening cast would double the bytes of the reduction, so the sum is reduced before it, in the narrow type. In a
// chain of parameters the cast keeps the Partial (Fsdp.GathersTheNarrowValueAndReducesInTheWideOne).
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

// PT#165962: one kind of Partial passed through an op that keeps another kind. A maximum does not pass even through a
// linear op: max(a) + max(b) is not max(a + b), and -max(a) is a minimum.
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

// A sum over one axis of a maximum over another is ambiguous, because the order of the reductions would matter.
TEST(Partials, TwoKindsNeverStandInOnePlacement) {
  Sharding mixed{P, Partial(ReduceOp::kMax)};
  Graph leaf = test::Trace([&] { return Traced{{{"y", Leaf("x", kF64, {4}, mixed)}}}; });
  Graph reshard = test::Trace([&] { return Traced{{{"y", Reshard(Leaf("x", kF64, {4}, {R, R}), mixed)}}}; });
  for (const Graph* graph : {&leaf, &reshard})
    EXPECT_THAT(ErrorOf([&] { Partition(*graph, {.mesh = kDp2Tp2}); }),
                AllOf(HasSubstr("(P(sum), P(max))"), HasSubstr("never mix")));
  // On an axis of one rank a Partial has no meaning.
  EXPECT_EQ(ErrorOf([&] { Partition(leaf, {.mesh = {{"dp", "tp"}, {1, 2}}}); }), "");
}

// The rules do not create such a mix either: the pending sum over dp is reduced before a maximum over tp begins.
TEST(Partials, AMaxOverAShardedDimResolvesAPendingSumFirst) {
  Graph graph = test::Trace([] { return Traced{{{"y", ReduceMax(Leaf("x", kF64, {3, 6}, {P, S(1)}), 1)}}}; });
  EXPECT_EQ(NaturalPlacement(graph, kDp2Tp2), (Sharding{R, Partial(ReduceOp::kMax)}));
  ExpectSameOnRanks(graph, kDp2Tp2, {{"x", Draw({3, 6}, 1)}});
}

// A Partial is resolved where it is produced. Two readers share one all-reduce, and for a sharded reader it is a
// reduce-scatter.
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

// ---- Megatron's pattern, whose number of collectives is known. ----

// x + gelu(x w1) w2, twice. tp shards the columns of w1 and the rows of w2.
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

// Half a layer has one all-reduce forward (after the row product) and one backward (before the column product). An
// earlier version that kept Partials longer turned eight of them into thirty.
TEST(Megatron, TwoMlpsAllReduceTwiceForwardAndTwiceBackward) {
  Graph graph = MegatronMlp(false);
  for (const MeshShape& mesh : {kTp2, kTp4}) {
    LocalProgram local = Partition(graph, {.mesh = mesh, .natural = true});
    EXPECT_EQ(Collectives(local, Phase::kForward), (Counts{{"all_reduce", 2}})) << Print(local.graph);
    EXPECT_EQ(Collectives(local, Phase::kBackward), (Counts{{"all_reduce", 2}})) << Print(local.graph);
    ExpectSameOnRanks(graph, mesh, MegatronValues());
  }
}

// Sequence parallel has an all-gather and a reduce-scatter forward, and their duals backward. The output of a reshard
// keeps its Partial cotangent, so P -> S is one reduce-scatter and not an all-reduce and a slice.
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

// A conversion that Partition inserts has its dual in the backward pass, and no cotangent is created at global size.
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

// ---- Every collective has a line, a scope and a phase. ----

TEST(CommunicationPlan, EveryCollectiveNamesItsLineScopeAndPhase) {
  Counts seen, want;
  for (const CommLine& l : CommPlan(Partition(MegatronMlp(true), {.mesh = kTp2, .natural = true}))) {
    EXPECT_THAT(l.line, HasSubstr("rule_traps_test.cc:"));
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

// All ranks run the same steps with the same sizes, also those that hold less or nothing. If one left out a collective,
// the others would hang. A kernel may need less scratch for fewer rows, so offsets in the arena may differ per rank.
TEST(CommunicationPlan, IsTheSameOnRanksThatHoldLessOrNothing) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {5, 3}, {S(0)}), w = Leaf("w", kF64, {3}, {R});
    Var y = Softmax(LayerNorm(x, w, w, 1e-5), 1);
    std::vector<Var> d = Grad(SumAll(y * y), std::vector{x, w});
    return Traced{{{"y", y}, {"dx", d[0]}, {"dw", d[1]}}};
  });
  LocalProgram local = Partition(graph, {.mesh = kTp4});  // the ranks hold 2, 2, 1 and 0 rows
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
