// A simplified program gives the same bits with fewer nodes.
#include "weft/core/passes/simplify.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cstring>
#include <limits>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::Values;

struct Both {
  Values before, after;
  size_t nodes_before, nodes_after;
};

// Runs the graph on one rank, as it is and simplified. Ops without a kernel run as compositions.
Both RunBoth(const Graph& graph, const Values& leaves) {
  Context context(0, 1);
  const KernelTable& kernels = test::KernelsOf(DeviceKind::kCpu);
  context.kernels(DeviceKind::kCpu) = kernels;
  Runtime runtime{.context = &context};
  Binder bind = [&](const std::string& name, const ValueInfo& info) {
    auto it = leaves.find(name);
    return it == leaves.end() ? Tensor::Zeros(info.dtype, info.shape) : it->second;
  };
  LocalProgram program = Partition(graph, {.kernels = &kernels}), simple = Simplify(program);
  return {Interpret(program, runtime, bind), Interpret(simple, runtime, bind), program.graph.nodes.size(),
          simple.graph.nodes.size()};
}

void ExpectSameBits(const Both& both, const std::string& what) {
  ASSERT_EQ(both.before.size(), both.after.size()) << what;
  for (const auto& [name, tensor] : both.before) {
    const Tensor& got = both.after.at(name);
    ASSERT_EQ(got.shape(), tensor.shape()) << what;
    EXPECT_EQ(std::memcmp(got.data(), tensor.data(), tensor.bytes()), 0) << what << " " << name;
  }
}

// Returns an output with storage of its own: one more broadcast of v. Simplify keeps outputs, so each output needs a
// separate node.
NamedValue Read(const std::string& name, const Var& v) { return {name, Broadcast(v, 0, 1)}; }

class Twice : public testing::TestWithParam<int> {};

TEST_P(Twice, IsDoneOnce) {
  Op op = Op(GetParam());
  std::vector<Sample> samples = Record(op).samples(op);
  for (size_t s = 0; s < samples.size(); s++)
    for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16}) {
      std::string what = fmt::format("{} sample {} {}", Name(op), s, Name(dtype));
      std::vector<Tensor> drawn = sweep::SampleValues(samples[s], 23);
      Values leaves;
      Graph graph = test::Trace([&] {
        std::vector<Var> in;
        for (size_t i = 0; i < drawn.size(); i++) {
          DType type = !IsFloating(drawn[i].dtype())          ? drawn[i].dtype()
                       : samples[s].inputs[i].accumulate_type ? AccumulateType(dtype)
                                                              : dtype;
          std::string name = fmt::format("in{}", i);
          leaves[name] = Tensor::FromDoubles(drawn[i].ToDoubles(), type, drawn[i].shape());
          in.push_back(Leaf(name, type, drawn[i].shape()));
        }
        test::Traced traced;
        for (const char* copy : {"a", "b"}) {
          Outputs out = CurrentBuilder().Emit(op, samples[s].attrs, in, Loc::current());
          for (size_t i = 0; i < out.size(); i++) traced.outputs.push_back(Read(fmt::format("{}{}", copy, i), out[i]));
        }
        return traced;
      });
      Both both = RunBoth(graph, leaves);
      ExpectSameBits(both, what);
      EXPECT_LT(both.nodes_after, both.nodes_before) << what;
    }
}

std::string OpName(const testing::TestParamInfo<int>& param) { return Name(Op(param.param)); }
INSTANTIATE_TEST_SUITE_P(All, Twice, testing::Range(0, kNumOps), OpName);

TEST(Simplify, WhatDoesNothingGoes) {
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16}) {
    Graph graph = test::Trace([&] {
      Var x = Leaf("x", dtype, {3, 4});
      Var y = Emit(Op::kCast, {{"dtype", int(dtype)}}, {Permute(Scale(x, 1.0), {0, 1})}, Loc::current())[0];
      return test::Traced{{Read("y", y)}};
    });
    Both both = RunBoth(graph, {{"x", test::Draw({3, 4}, 5, dtype)}});
    ExpectSameBits(both, Name(dtype));
    EXPECT_EQ(both.nodes_after, 2u) << Name(dtype) << ": the leaf and what is read";
  }
}

TEST(Simplify, ConstantsAreFoldedToTheBit) {
  using Limits = std::numeric_limits<double>;
  const double values[] = {0, -0.0, 1, -1.0 / 3, 1e-40, 5e-324, 1e38, 1e300, Limits::infinity(), 16777217, 0.1};
  for (DType dtype : {DType::kF64, DType::kF32})
    for (double value : values)
      for (double k : values) {
        Graph graph = test::Trace([&] {
          Var c = Full(value, dtype, {2});
          Var wide = Cast(c, DType::kF64), narrow = Cast(c, DType::kF32);
          return test::Traced{{Read("scaled", Scale(c, k)), Read("added", AddScalar(c, k)),
                               Read("twice", Scale(AddScalar(c, 0.1), k)), Read("wide", wide),
                               Read("narrow", AddScalar(narrow, k))}};
        });
        std::string what = fmt::format("{} {} with {}", Name(dtype), value, k);
        Both both = RunBoth(graph, {});
        ExpectSameBits(both, what);
        EXPECT_LE(both.nodes_after, 10u) << what << ": a constant and what is read, five times at most";
      }
}

// Simplify does not merge a forward op with a backward one, because the backward pass recomputes values on purpose. It
// keeps every collective, because all ranks count them.
TEST(Simplify, PhasesAndCollectivesStay) {
  Graph graph = test::Trace([&] {
    Var x = Leaf("x", DType::kF32, {4}, Sharding{Shard(0)});
    Var first = Exp(x), twin = Exp(x), again;
    {
      OriginScope backward(Phase::kBackward, nullptr);
      again = Exp(x);
    }
    return test::Traced{{{"a", first},
                         {"b", Neg(again)},
                         {"c", AddScalar(Reshard(twin, Sharding(1)), 1.0)},
                         {"d", AddScalar(Reshard(Exp(x), Sharding(1)), 2.0)}}};
  });
  LocalProgram program = Partition(graph, {.mesh = {{"x"}, {2}}, .natural = true});
  auto count = [](const LocalProgram& p, Op op) {
    return std::count_if(p.graph.nodes.begin(), p.graph.nodes.end(), [&](const auto& n) { return n->op == op; });
  };
  LocalProgram simple = Simplify(program);
  EXPECT_EQ(count(program, Op::kExp), 4);
  EXPECT_EQ(count(simple, Op::kExp), 3) << "one that is read by name, one for both collectives, one backward";
  EXPECT_EQ(count(simple, Op::kAllGather), 2);
  EXPECT_EQ(test::Collectives(simple), test::Collectives(program));
}

}  // namespace
}  // namespace weft
