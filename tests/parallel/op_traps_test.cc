// Ops that other frameworks got wrong: views and heads, attention, the loss, the embedding and random numbers.
#include <cmath>
#include <limits>

#include "parallel/traps.h"

#include "weft/core/ir/collective_row.h"

namespace weft {
namespace {

using namespace traps;

// ---- Heads, views. ----

// PT#149764, #166483, #172102: a view keeps a shard only if chunk boundaries coincide. Otherwise the tensor is
// gathered, and the values are right.
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

// The inner dim of a merge is interleaved in the result, so a shard of it is always gathered.
TEST(Views, PT166483_AShardOfTheInnerDimOfAMergeIsGathered) {
  Graph graph = test::Trace([] { return Traced{{{"y", Merge(Leaf("x", kF64, {3, 4}, {S(1)}), 0)}}}; });
  EXPECT_EQ(NaturalPlacement(graph, kTp2), Sharding{R});
  ExpectSameOnRanks(graph, kTp2, {{"x", Draw({3, 4}, 1)}}, 0);
}

// PT#179502: a view of [12, 8], sharded over its columns, as [16, 6] kept a shard of the rows without moving anything.
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

// transformers#47811: KV heads that tp does not divide were refused or gave wrong results. Here the groups are
// replicated, and dK and dV are Partial. If chunks coincide, K and V stay sharded and nothing moves.
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

// transformers#46960: attention silently fell back to memory quadratic in the sequence. Here heads, batch or queries
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

// PT#103963: a row that sees no key gave NaN. Here its output is 0, its log-sum-exp is -inf and its gradients are 0.
TEST(Attention, PT103963_FullyMaskedRowsAreZeroAndMinusInfinity) {
  Graph graph = test::Trace([] {
    std::vector<Var> in{Leaf("q", kF64, {1, 4, 2, 4}, {S(2)}), Leaf("k", kF64, {1, 4, 2, 4}, {S(2)}),
                        Leaf("v", kF64, {1, 4, 2, 4}, {S(2)})};
    // Query i sees keys j <= i - 2, so the first two rows see none.
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

// PT#116350, #128971, #165530: fused attention had no double backward. Here it is that of the composition, which is
// partitioned like any other program. The tests also cover a norm over a sharded dim and a loss over a sharded
// vocabulary.
Traced SecondDerivatives(const Var& y, const std::vector<Var>& in) {
  Var loss;
  for (const Var& d : Grad(SumAll(y * y), in)) loss = loss.defined() ? loss + SumAll(Sin(d)) : SumAll(Sin(d));
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
  for (const Sharding& s : {Sharding{S(0), S(2)}, Sharding{S(2), R}, Sharding{S(2, 1), S(2, 0)}, Sharding{S(1), R}})
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

// ---- Cross-entropy over a sharded vocabulary. ----

// ML#737: label smoothing was wrong over a sharded vocabulary. ML#1754: a vocabulary that tp does not divide gave large
// errors. The test checks loss and gradient, with ignored targets, for both.
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

// Three small all-reduces forward (maximum, sum of exponentials, target logit) and none backward. The logits never
// move.
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
    EXPECT_TRUE(!IsCollective(node->op) || NumElements(node->outputs[0].shape) <= 6);
  ASSERT_EQ(local.inlined.size(), 1u);
  EXPECT_THAT(local.inlined[0], HasSubstr("cross_entropy at op_traps_test.cc"));
}

// The table's rows are sharded over tp. The embedding is Partial, and the gradient stays on the ranks of its rows.
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

// PT#168058: random init and dropout changed with the mesh, and DTensor's random ops failed on the CPU. Here they are
// bit-equal in every placement of the result, forward and backward.
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

// A micro-batch draws the numbers that its rows have in the whole batch.
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

// Two random ops of one module, and the same op in two modules, draw different numbers. A second trace draws the same
// numbers.
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

}  // namespace
}  // namespace weft
