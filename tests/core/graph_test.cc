// Graph: what Verify refuses, what Print shows, and the text of the errors that building one gives.
#include "weft/core/ir/graph.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <functional>

#include "error_of.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ir/verify.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/fuse.h"
#include "weft/core/passes/fuse_loss.h"
#include "weft/core/passes/schedule/schedule.h"
#include "weft/core/passes/simplify.h"
#include "weft/core/runtime/kernel.h"
#include "weft/core/transforms/partition.h"

namespace weft {
namespace {

using test::ErrorOf;

TEST(Verify, RefusesAnOperandThatIsMadeLater) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var y = Exp(Leaf("x", DType::kF32, {2}));
  Graph graph = trace.Finish({{"y", y}});
  EXPECT_EQ(ErrorOf([&] { Verify(graph); }), "");
  std::swap(graph.nodes[0], graph.nodes[1]);
  EXPECT_EQ(ErrorOf([&] { Verify(graph); }),
            fmt::format("exp at graph_test.cc:{}: operand %0 is not made before it is used", y.node().loc.line()));
}

TEST(Verify, RefusesAnOutputOfAnotherGraph) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var x = Leaf("x", DType::kF32, {2});
  trace.Finish({{"x", x}});
  Var y = Leaf("y", DType::kF32, {2});
  EXPECT_EQ(ErrorOf([&] { Verify(trace.Finish({{"x", x}, {"y", y}})); }), "graph: \"x\" is not made by it");
  EXPECT_EQ(ErrorOf([&] { Verify(Graph{{}, {{"none", Var()}}, {}}); }), "graph: \"none\" is not made by it");
}

// What a pass may get wrong in a node that it makes or changes; each is found by what the op's record infers.
TEST(Verify, RefusesResultsThatTheRecordDoesNotInfer) {
  using Damage = void (*)(Node&);
  const std::pair<const char*, Damage> cases[] = {
      {"output 0 is f32 [3, 2], its op infers f32 [2, 3]",
       [](Node& n) {
         n.outputs[0].shape = {3, 2};
       }},
      {"output 0 is bf16 [2, 3], its op infers f32 [2, 3]", [](Node& n) { n.outputs[0].dtype = DType::kBF16; }},
      {"has 2 outputs, its op has 1", [](Node& n) { n.outputs.push_back(n.outputs[0]); }},
      {"label 'c' of \"ac,cb->ab\", got 4 in operand 0, f32 [2, 4], and 2 in operand 1, f32 [2, 3]",
       [](Node& n) {
         n.inputs[1] = Leaf("other", DType::kF32, {2, 3});
         n.attrs.Set({"eq", "ac,cb->ab"});
       }},
  };
  for (const auto& [want, damage] : cases) {
    TraceBuilder trace;
    BuilderScope scope(trace);
    Var a = Leaf("a", DType::kF32, {2, 4}), b = Leaf("b", DType::kF32, {4, 3}), y = Einsum("ac,cb->ab", a, b);
    Graph graph = trace.Finish({{"y", y}});
    EXPECT_EQ(ErrorOf([&] { Verify(graph); }), "");
    damage(y.node());
    graph.nodes.insert(graph.nodes.begin(), y.node().inputs[1].node_ptr());
    EXPECT_NE(ErrorOf([&] { Verify(graph); }).find(want), std::string::npos) << ErrorOf([&] { Verify(graph); });
  }
}

// In a local program the operands' global shapes count, and each chunk is what its placement gives.
TEST(Verify, RefusesChunksOfAnotherSize) {
  MeshShape mesh{{"x"}, {2}};
  auto local = [&] {
    TraceBuilder trace;
    BuilderScope scope(trace);
    Var x = Leaf("x", DType::kF32, {5, 4}, Sharding{Shard(0)});
    return Partition(trace.Finish({{"y", ReduceSum(Exp(x), 0)}}), {.mesh = mesh});  // exp, a sum, an all-reduce
  };
  LocalProgram good = local(), chunk = local(), global = local();
  EXPECT_EQ(ErrorOf([&] { VerifyLocal(good.graph, mesh); }), "");
  chunk.graph.nodes[1]->outputs[0].shape = {2, 4};
  EXPECT_NE(ErrorOf([&] { VerifyLocal(chunk.graph, mesh); }).find("output 0 is [2, 4] on a rank, but [5, 4] placed"),
            std::string::npos);
  global.graph.nodes.back()->outputs[0].global = {5};
  EXPECT_NE(ErrorOf([&] { VerifyLocal(global.graph, mesh); }).find("output 0 is f32 [5], its op infers f32 [4]"),
            std::string::npos);
}

// All tests run with it; a program that a pass has broken does not leave the pass.
TEST(Verify, RunsAfterEachPass) {
  ASSERT_TRUE(VerifiesPasses()) << "ctest sets WEFT_VERIFY=1";
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var y = Exp(Leaf("x", DType::kF32, {2}));
  y.node().outputs[0].shape = {3};
  EXPECT_NE(ErrorOf([&] { trace.Finish({{"y", y}}); }).find("its op infers f32 [2]"), std::string::npos);
  LocalProgram broken{Graph{{y.node().inputs[0].node_ptr(), y.node_ptr()}, {{"y", y}}, {}}, {{"x"}, {1}}, {}};
  for (auto& node : broken.graph.nodes) {
    node->outputs[0].global = node->outputs[0].shape;
    node->outputs[0].sharding = Sharding(1);
  }
  KernelTable none;
  EXPECT_NE(ErrorOf([&] { FuseLoss(broken, none); }).find("its op infers f32 [2]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { Fuse(broken, none); }).find("its op infers f32 [2]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { Simplify(broken); }).find("its op infers f32 [2]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { Schedule(broken); }).find("its op infers f32 [2]"), std::string::npos);
  EXPECT_NE(ErrorOf([&] { Partition(broken.graph, {.mesh = {{"x"}, {1}}}); }).find("its op infers"), std::string::npos);
}

TEST(Print, IsOneLineANodeWithOpAttributesShapesScopeAndLine) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  int line = __LINE__ + 1;
  Var x = Leaf("x", DType::kF32, {2, 3});
  ModuleScope outer("block");
  ModuleScope inner("norm");
  Outputs y = Emit(Op::kRmsNorm, {{"eps", 0.5}}, {x, Leaf("w", DType::kF32, {3})}, Loc::current());
  Var z = Scale(y[1], 2.0);
  EXPECT_EQ(Print(trace.Finish({{"z", z}}, {{"w", y[0]}})),
            fmt::format("%0 = leaf() name=x dtype=1 shape=[2, 3] placement=() parameter=0 : f32 [2, 3]  // forward  "
                        "graph_test.cc:{0}\n"
                        "%1 = leaf() name=w dtype=1 shape=[3] placement=() parameter=0 : f32 [3]  // forward "
                        "block.norm graph_test.cc:{1}\n"
                        "%2 = rms_norm(%0, %1) eps=0.5 : f32 [2, 3], f32 [2]  // forward block.norm graph_test.cc:{1}\n"
                        "%3 = scale(%2.1) k=2 : f32 [2]  // forward block.norm graph_test.cc:{2}\n"
                        "output z = %3.0\nwrite w = %2.0\n",
                        line, line + 3, line + 4));
}

TEST(RemoveDead, KeepsWhatOutputsAndWritesNeed) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var x = Leaf("x", DType::kF32, {2}), unused = Exp(x), y = Sin(x), w = Cos(y);
  Graph graph = RemoveDead(trace.Finish({{"y", y}}, {{"w", w}}));
  EXPECT_EQ(graph.nodes.size(), 3u);
  for (const auto& node : graph.nodes) EXPECT_NE(node.get(), &unused.node());
  EXPECT_NO_THROW(Verify(graph));
}

// A composition's nodes and errors name the line that called it, also where one composition calls another.
TEST(Errors, InACompositionNameItsCaller) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var x = Leaf("x", DType::kF32, {2, 3}), ids = Leaf("ids", DType::kI64, {2, 3});
  size_t before = trace.nodes().size();
  int line = __LINE__ + 1;
  SmoothL1Loss(x, Scale(x, 0.5), 0.1);
  for (size_t i = before; i < trace.nodes().size(); i++) EXPECT_EQ(int(trace.nodes()[i]->loc.line()), line);
  EXPECT_GT(trace.nodes().size(), before + 5);
  std::string error = ErrorOf([&] { MseLoss(x, ids); });
  EXPECT_NE(error.find(fmt::format("sub at graph_test.cc:{}", line + 3)), std::string::npos) << error;
  error = ErrorOf([&] { Mean(ids, 1); });
  EXPECT_NE(error.find("mean at graph_test.cc"), std::string::npos) << error;
}

// What, expected, got, where.
TEST(Errors, NameTheOpTheLineAndWhatWasExpected) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  ModuleScope module("attn");
  auto at = [](int line) { return fmt::format("graph_test.cc:{} in attn: ", line); };
  auto leaf = [](Shape shape, DType dtype = DType::kF32) { return Leaf("x", dtype, std::move(shape)); };
  Var a = leaf({2, 3}), b = leaf({4, 3}), half = leaf({2, 3}, DType::kBF16), ids = leaf({2}, DType::kI64);
  // The cases count lines.
  // clang-format off
  int line = __LINE__ + 1;
  const std::pair<std::string, std::function<void()>> cases[] = {
      {"einsum at " + at(line + 2) + "expected one extent of label 'b' of \"ab,bc->ac\", got 3 in operand 0, f32 [2, 3], and 4 in operand 1, f32 [4, 3]; permute, slice or rename",
       [&] { Einsum("ab,bc->ac", a, b); }},
      {"einsum at " + at(line + 4) + "expected operand 0 of 3 dims, got f32 [2, 3]; split, merge or unsqueeze dims",
       [&] { Einsum("abd,bc->adc", a, b); }},
      {"add at " + at(line + 6) + "expected operands 0 and 1 of one dtype and shape, got f32 [2, 3] and bf16 [2, 3]; cast one of them",
       [&] { a + half; }},
      {"add at " + at(line + 8) + "expected operands 0 and 1 of one dtype and shape, got f32 [2, 3] and f32 [4, 3]; dims must be equal, or 1 where the op broadcasts",
       [&] { a + b; }},
      {"split at " + at(line + 10) + "expected pieces whose size divides dim 1 of f32 [2, 3], got 2; pad or slice the dim first",
       [&] { Split(a, 1, 2); }},
      {"slice at " + at(line + 12) + "expected elements in [0, 3) of dim 1 of f32 [2, 3], got a start of 1 and a length of 3; shorten it, or Pad first",
       [&] { Slice(a, 1, 1, 3); }},
      {"permute at " + at(line + 14) + "expected each of the 2 dims of f32 [2, 3] once, counted from 0, got [0, 0]; name every dim",
       [&] { Permute(a, {0, 0}); }},
      {"exp at " + at(line + 16) + "an operand is empty (a Var that was never assigned); assign it before this line",
       [&] { Exp(Var()); }},
      {"embedding at " + at(line + 18) + "expected ids of i32 or i64, got f32 [2, 3]; the table comes first, then the ids",
       [&] { Embedding(a, a); }},
  };
  line = __LINE__ + 1;
  EXPECT_EQ(ErrorOf([&] { ReduceSum(a, 2); }), fmt::format("reduce_sum at graph_test.cc:{}: expected a dim in [-2, 2) of f32 [2, 3], got 2; a negative dim counts from the end", line));
  // clang-format on
  for (auto& [want, body] : cases) EXPECT_EQ(ErrorOf(body), want);
}

TEST(Errors, AnEmptyVarSaysSo) {
  const Var empty;
  EXPECT_FALSE(empty.defined());
  const std::pair<const char*, std::function<void()>> calls[] = {
      {"node", [&] { empty.node(); }},
      {"dtype", [&] { empty.dtype(); }},
      {"shape", [&] { empty.shape(); }},
      {"rank", [&] { empty.rank(); }},
      {"dim", [&] { empty.dim(0); }},
      {"Item", [&] { empty.Item(); }},
      {"bool", [&] { static_cast<void>(static_cast<bool>(empty)); }},
  };
  for (const auto& [name, call] : calls) {
    std::string text = test::ErrorOf(call);
    EXPECT_NE(text.find("empty"), text.npos) << name << " " << text;
    EXPECT_NE(text.find("(a Var that was never assigned); assign it before this line"), text.npos)
        << name << " " << text;
  }
}

TEST(Errors, AnOpWithoutABuilderSaysSo) {
  EXPECT_EQ(ErrorOf([] { Full(1, DType::kF32, {}); }),
            "ops need a builder: open a BuilderScope of a TraceBuilder, or an EagerScope");
}

// Scopes nest and end; a builder of an inner scope does not touch the outer one.
TEST(Builder, ScopesNest) {
  EXPECT_FALSE(HasBuilder());
  TraceBuilder outer;
  {
    BuilderScope scope(outer);
    Full(1, DType::kF32, {});
    TraceBuilder inner;
    {
      BuilderScope again(inner);
      Full(2, DType::kF32, {});
      EXPECT_EQ(&CurrentBuilder(), &inner);
    }
    EXPECT_EQ(&CurrentBuilder(), &outer);
    EXPECT_EQ(inner.nodes().size(), 1u);
  }
  EXPECT_EQ(outer.nodes().size(), 1u);
  EXPECT_FALSE(HasBuilder());
}

// One record an op, and every name its own.
TEST(Ops, HaveARecordASampleAndANameEach) {
  std::map<std::string, int> names;
  for (int i = 0; i < kNumOps; i++) {
    const OpRecord& record = Record(Op(i));
    EXPECT_EQ(record.op, Op(i));
    EXPECT_TRUE(record.infer && record.dims && record.samples) << Name(Op(i));
    EXPECT_TRUE(record.grad || record.fallback) << Name(Op(i)) << " has neither a derivative nor a composition";
    EXPECT_EQ(names[Name(Op(i))]++, 0);
  }
}

// The labels fit the shapes: one label a dim, one extent a label.
TEST(Ops, LabelsAgreeWithTheShapesOfTheSamples) {
  for (int i = 0; i < kNumOps; i++)
    for (const Sample& sample : Record(Op(i)).samples(Op(i))) {
      TraceBuilder trace;
      BuilderScope scope(trace);
      std::vector<Var> in;
      for (const SampleInput& input : sample.inputs) {
        bool integer =
            input.domain == Domain::kIds || input.domain == Domain::kIdsOrIgnored || input.domain == Domain::kOne;
        in.push_back(Leaf("x",
                          integer                         ? DType::kI64
                          : input.domain == Domain::kBool ? DType::kBool
                                                          : DType::kF64,
                          input.shape));
      }
      const Node& node = trace.Emit(Op(i), sample.attrs, in, Loc::current())[0].node();
      Dims dims = Record(Op(i)).dims(node);
      ASSERT_EQ(dims.in.size(), node.inputs.size()) << Name(Op(i));
      ASSERT_EQ(dims.out.size(), node.outputs.size()) << Name(Op(i));
      std::map<char, int64_t> extents;
      auto check = [&](const std::string& labels, const Shape& shape) {
        ASSERT_EQ(labels.size(), shape.size()) << Name(Op(i));
        for (size_t d = 0; d < labels.size(); d++) {
          if (dims.blocked.find(labels[d]) != std::string::npos) continue;  // slice, pad and concat change it
          int64_t& extent = extents.try_emplace(labels[d], shape[d]).first->second;
          EXPECT_EQ(extent, shape[d]) << Name(Op(i)) << " label " << labels[d];
        }
      };
      for (size_t k = 0; k < dims.in.size(); k++) check(dims.in[k], node.inputs[k].shape());
      for (size_t k = 0; k < dims.out.size(); k++) check(dims.out[k], node.outputs[k].shape);
      for (const Dims::Group& g : dims.groups)
        EXPECT_EQ(extents.at(g.merged), extents.at(g.outer) * g.inner) << Name(Op(i));
    }
}

TEST(Flops, AreTwiceTheProductOfAllLabels) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var y = Einsum("btc,cn->btn", Leaf("x", DType::kF32, {2, 3, 4}), Leaf("w", DType::kF32, {4, 5}));
  EXPECT_EQ(ProductFlops(y.node()), 2.0 * 2 * 3 * 4 * 5);
  // Scores and output: 2 products over b, t, s, h, d; KV heads are inside the query heads.
  Var kv = Leaf("kv", DType::kF32, {2, 7, 2, 4});
  EXPECT_EQ(ProductFlops(Sdpa(Leaf("q", DType::kF32, {2, 3, 6, 4}), kv, kv, {}).node()), 2.0 * 2 * (2 * 3 * 7 * 6 * 4));
}

}  // namespace
}  // namespace weft
