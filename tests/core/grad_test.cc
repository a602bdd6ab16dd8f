// Tests of derivatives. First and second derivatives of every op agree with central differences in f64. Grad also keeps
// its laws on whole graphs.
#include "weft/core/transforms/grad.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using test::Values;
constexpr DType kF64 = DType::kF64;

// With f64 values and a step of 1e-5, a difference is off by 1e-10 times the third derivative and by 1e-16 / 1e-5 of
// the value.
constexpr double kStep = 1e-5, kTolerance = 3e-7;

// A traced program that can run many times on one rank.
class Program {
 public:
  explicit Program(const Graph& graph)
      : context_(0, 1), local_(Partition(graph, {.kernels = &test::KernelsOf(DeviceKind::kCpu)})) {
    RegisterCpuKernels(context_.kernels(DeviceKind::kCpu));
  }
  Values Run(const Values& leaves) const {
    return Interpret(local_, {&context_}, [&](const std::string& name, const ValueInfo&) { return leaves.at(name); });
  }

 private:
  Context context_;
  LocalProgram local_;
};

// Every output "d.<leaf>" must agree with the central differences of output "loss" for that leaf.
void ExpectCentralDifferences(const Graph& graph, Values leaves, const std::string& what) {
  Program program(graph);
  Values got = program.Run(leaves);
  for (auto& [name, gradient] : got) {
    if (name.substr(0, 2) != "d.") continue;
    Tensor& x = leaves.at(name.substr(2));
    std::vector<double> d = gradient.ToDoubles();
    for (size_t i = 0; i < d.size(); i += 1 + d.size() / 16) {  // a sample of the elements of a large operand
      double old = x.as<double>()[i];
      x.as<double>()[i] = old + kStep;
      double above = program.Run(leaves).at("loss").Item();
      x.as<double>()[i] = old - kStep;
      double below = program.Run(leaves).at("loss").Item();
      x.as<double>()[i] = old;
      double want = (above - below) / (2 * kStep);
      ASSERT_NEAR(d[i], want, kTolerance * std::max(1.0, std::abs(want))) << what << ", " << name << " element " << i;
    }
  }
}

bool Differentiable(const SampleInput& input) {
  switch (input.domain) {
    case Domain::kIds:
    case Domain::kIdsOrIgnored:
    case Domain::kOne:
    case Domain::kBool:
    case Domain::kShapeOnly:
      return false;
    default:
      return true;
  }
}

// Returns sum_i <w_i, values_i> with fixed weights w.
Var Weighted(const std::vector<Var>& values) {
  Var total;
  for (size_t i = 0; i < values.size(); i++) {
    const Var& v = values[i];
    if (!v.defined() || !IsFloating(v.dtype())) continue;
    Var weights = Sin(
        Cast(AddScalar(Scale(Cast(Iota(0, DType::kI64, {NumElements(v.shape())}), kF64), 1.7), double(i)), v.dtype()));
    for (int d = v.rank() - 1; d > 0; d--) weights = Split(weights, 0, v.dim(d));
    if (v.rank() == 0) weights = ReduceSum(weights, 0);
    Var term = SumAll(v * weights);
    total = total.defined() ? total + term : term;
  }
  return total;
}

struct OpCase {
  Graph graph;
  Values leaves;
  bool any = false;
};

// With order 1 the program computes the gradient of the op's outputs: of `output` only, or of all for -1. With order 2
// it computes the gradient of a weighted sum of those gradients.
OpCase MakeCase(Op op, const Sample& sample, int output, int order) {
  OpCase c;
  std::vector<Tensor> values = sweep::SampleValues(sample, 17);
  c.graph = test::Trace([&] {
    std::vector<Var> in, wrt;
    std::vector<std::string> names;
    for (size_t i = 0; i < values.size(); i++) {
      std::string name = fmt::format("in{}", i);
      in.push_back(Leaf(name, values[i].dtype(), values[i].shape()));
      c.leaves[name] = values[i];
      if (Differentiable(sample.inputs[i])) {
        wrt.push_back(in.back());
        names.push_back(name);
      }
    }
    Outputs out = CurrentBuilder().Emit(op, sample.attrs, in, Loc::current());
    std::vector<Var> results(out.begin(), out.end());
    if (output >= 0) results = {out[size_t(output)]};
    Var loss = Weighted(results);
    if (loss.defined() && order == 2) loss = Weighted(Grad(loss, wrt));
    test::Traced traced;
    if (!loss.defined() || wrt.empty()) return traced;
    c.any = true;
    traced.outputs.push_back({"loss", loss});
    std::vector<Var> d = Grad(loss, wrt);
    for (size_t i = 0; i < d.size(); i++) traced.outputs.push_back({"d." + names[i], d[i]});
    return traced;
  });
  return c;
}

class OpGrad : public testing::TestWithParam<int> {};

TEST_P(OpGrad, FirstAndSecondDerivativesAreCentralDifferences) {
  Op op = Op(GetParam());
  if (op == Op::kStopGradient) return;  // its derivative is 0 by definition
  std::vector<Sample> samples = Record(op).samples(op);
  for (size_t s = 0; s < samples.size(); s++) {
    const Sample& sample = samples[s];
    if (op == Op::kCast) continue;  // f32 steps are too coarse for differences; see Grad.ACastIsLinear...
    int outputs = 1;
    test::Trace([&] {
      std::vector<Var> in;
      std::vector<Tensor> values = sweep::SampleValues(sample, 17);
      for (const Tensor& v : values) in.push_back(Leaf("x", v.dtype(), v.shape()));
      outputs = int(CurrentBuilder().Emit(op, sample.attrs, in, Loc::current()).size());
      return test::Traced{};
    });
    for (int order : {1, 2})
      for (int output = outputs > 1 ? -1 : 0; output < outputs; output++) {
        OpCase c = MakeCase(op, sample, output, order);
        if (c.any)
          ExpectCentralDifferences(c.graph, c.leaves,
                                   fmt::format("{} sample {} output {} order {}", Name(op), s, output, order));
      }
  }
}

std::string OpName(const testing::TestParamInfo<int>& param) { return Name(Op(param.param)); }
INSTANTIATE_TEST_SUITE_P(All, OpGrad, testing::Range(0, kNumOps), OpName);

// ---- Graphs. ----

Values RunTraced(const std::function<test::Traced()>& body, const Values& leaves) {
  return Program(test::Trace(body)).Run(leaves);
}

TEST(Grad, ACastIsLinearAndItsCotangentHasTheInputsType) {
  Values got = RunTraced(
      [] {
        Var x = Leaf("x", kF64, {3});
        Var d = Grad(SumAll(Scale(Cast(x, DType::kBF16), 2.0)), std::vector{x})[0];
        EXPECT_EQ(d.dtype(), kF64);
        return test::Traced{{{"d", d}}};
      },
      {{"x", test::Draw({3}, 1)}});
  EXPECT_EQ(got.at("d").ToDoubles(), (std::vector<double>{2, 2, 2}));
}

// The gradient adds the contributions of all paths. Here y = x^(2^n) through n diamonds y * y.
TEST(Grad, DiamondsAddTheirPaths) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {}), y = x;
    for (int i = 0; i < 4; i++) y = y * y;
    Var z = Exp(Sin(x)) * Cos(x) + y * x;
    return test::Traced{{{"loss", z}, {"d.x", Grad(z, std::vector{x})[0]}}};
  });
  ExpectCentralDifferences(graph, {{"x", Tensor::Scalar(0.9, kF64)}}, "diamonds");
}

TEST(Grad, UnusedParametersGetZerosOfTheirShapeAndType) {
  Values got = RunTraced(
      [] {
        Var x = Leaf("x", kF64, {2}), unused = Leaf("u", DType::kF32, {3, 2}), stopped = Leaf("s", kF64, {2});
        Var loss = SumAll(x * StopGradient(stopped));
        std::vector<Var> d = Grad(loss, std::vector{x, unused, stopped});
        EXPECT_EQ(d[1].dtype(), DType::kF32);
        return test::Traced{{{"x", d[0]}, {"u", d[1]}, {"s", d[2]}}};
      },
      {{"x", test::Draw({2}, 1)}, {"s", test::Draw({2}, 2)}});
  EXPECT_EQ(got.at("x").ToDoubles(), test::Draw({2}, 2).ToDoubles());
  EXPECT_EQ(got.at("u").ToDoubles(), std::vector<double>(6, 0.0));
  EXPECT_EQ(got.at("s").ToDoubles(), std::vector<double>(2, 0.0));
}

TEST(Grad, OfAnIntermediateValue) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {3}), y = Sin(x), loss = SumAll(y * y * y);
    return test::Traced{{{"d", Grad(loss, std::vector{y})[0]}, {"want", Scale(y * y, 3.0)}}};
  });
  Values got = Program(graph).Run({{"x", test::Draw({3}, 1)}});
  EXPECT_LE(test::LargestDifference(got.at("d"), got.at("want")), 1e-15);
}

// The columns have no zero, one zero and two zeros. Dividing the product by the element would give NaN at every zero.
TEST(Grad, OfAProductWithZeros) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {3, 3}), loss = SumAll(Sin(ReduceProd(x, 0)));
    return test::Traced{{{"loss", loss}, {"d.x", Grad(loss, std::vector{x})[0]}}};
  });
  std::vector<double> values{0.5, 0, 0, -2, 3, 0, 0.25, 1.5, 2};
  Tensor x = Tensor::FromDoubles(values, kF64, {3, 3});
  ExpectCentralDifferences(graph, {{"x", x}}, "a product with zeros");
}

// d^n/dx^n x^k = k (k-1) ... (k-n+1) x^(k-n), which is 0 from n = k + 1 on, also where x^(k-n) is infinite. All values
// are exact.
TEST(Grad, OfWholePowersAtZeroAndBelow) {
  std::vector<double> at{-3, -1, -0.5, 0, 0.5, 2};
  for (int k : {0, 1, 2, 3}) {
    Values got = RunTraced(
        [&] {
          Var x = Leaf("x", kF64, {int64_t(at.size())}), y = PowScalar(x, k);
          test::Traced traced;
          for (int n = 1; n <= 4; n++) {
            y = Grad(SumAll(y), std::vector{x})[0];
            traced.outputs.push_back({std::to_string(n), y});
          }
          return traced;
        },
        {{"x", Tensor::FromDoubles(at, kF64, {int64_t(at.size())})}});
    double factor = 1;
    for (int n = 1; n <= 4; n++) {
      factor *= k - n + 1;
      std::vector<double> want;
      for (double x : at) want.push_back(n > k ? 0 : factor * std::pow(x, k - n));
      EXPECT_EQ(got.at(std::to_string(n)).ToDoubles(), want) << "k " << k << " order " << n;
    }
  }
}

// d^n/dx^n exp(2x) = 2^n exp(2x), with n nested calls of Grad.
TEST(Grad, Nests) {
  Values got = RunTraced(
      [] {
        Var x = Leaf("x", kF64, {}), y = Exp(Scale(x, 2.0));
        test::Traced traced;
        for (int n = 1; n <= 5; n++) {
          y = Grad(y, std::vector{x})[0];
          traced.outputs.push_back({std::to_string(n), y});
        }
        return traced;
      },
      {{"x", Tensor::Scalar(0.3, kF64)}});
  for (int n = 1; n <= 5; n++)
    EXPECT_NEAR(got.at(std::to_string(n)).Item(), std::pow(2, n) * std::exp(0.6), 1e-12 * std::pow(2, n));
}

// Second derivatives through attention and a norm, with ops that use one operand twice.
TEST(Grad, ThroughABlockTwice) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {1, 3, 4}), w = Leaf("w", kF64, {4}), q = Leaf("q", kF64, {4, 2, 2});
    auto block = [&](const Var& in) {
      Var h = LayerNorm(in, w, w, 1e-5);
      Var heads = Einsum("btc,chd->bthd", h, q);
      return Einsum("bthd,chd->btc", Sdpa(heads, Rope(heads, {.theta = 100.0}), heads, {}), q);
    };
    std::vector<Var> wrt{x, w, q};
    Var loss = Weighted(Grad(Weighted({block(x)}), wrt));
    test::Traced traced{{{"loss", loss}}};
    std::vector<Var> d = Grad(loss, wrt);
    for (size_t i = 0; i < 3; i++) traced.outputs.push_back({std::string("d.") + "xwq"[i], d[i]});
    return traced;
  });
  ExpectCentralDifferences(
      graph, {{"x", test::Draw({1, 3, 4}, 1)}, {"w", test::Draw({4}, 2)}, {"q", test::Draw({4, 2, 2}, 3)}}, "block");
}

// An op without a gradient rule of its own that uses one operand twice: the gradient is the sum of both contributions,
// counted once.
TEST(Grad, OfAnOperandThatStandsTwice) {
  Graph graph = test::Trace([] {
    Var x = Leaf("x", kF64, {2, 3}), w = Leaf("w", kF64, {3}), lr = Leaf("lr", kF64, {}), t = Full(1, DType::kI64, {});
    Outputs norm = Emit(Op::kLayerNorm, {{"eps", 1e-5}}, {x, w, w}, Loc::current());
    Var loss = Weighted({norm[0], norm[1], norm[2]}) + Weighted({AdamW(x, x, x * x, x, lr, lr, t, {})[0]});
    std::vector<Var> d = Grad(loss, std::vector{x, w, lr});
    return test::Traced{{{"loss", loss}, {"d.x", d[0]}, {"d.w", d[1]}, {"d.lr", d[2]}}};
  });
  ExpectCentralDifferences(
      graph, {{"x", test::Draw({2, 3}, 1)}, {"w", test::Draw({3}, 2)}, {"lr", Tensor::Scalar(0.3, kF64)}}, "twice");
}

// A seed that is a power of two scales all intermediate cotangents and changes no digit of them.
TEST(Grad, IsLinearInItsSeed) {
  Values got = RunTraced(
      [] {
        Var x = Leaf("x", kF64, {3, 4}), w = Leaf("w", kF64, {4}), seed = Leaf("seed", kF64, {});
        Var loss = SumAll(Gelu(LayerNorm(x, w, w, 1e-5)) * x);
        test::Traced traced;
        std::vector<Var> wrt{x, w}, plain = Grad(loss, wrt), scaled = Grad(loss, wrt, {seed});
        for (size_t i = 0; i < wrt.size(); i++) {
          traced.outputs.push_back({fmt::format("plain{}", i), Scale(plain[i], 1024)});
          traced.outputs.push_back({fmt::format("scaled{}", i), scaled[i]});
        }
        return traced;
      },
      {{"x", test::Draw({3, 4}, 1)}, {"w", test::Draw({4}, 2)}, {"seed", Tensor::Scalar(1024, kF64)}});
  for (const char* i : {"0", "1"})
    EXPECT_EQ(got.at(std::string("plain") + i).ToDoubles(), got.at(std::string("scaled") + i).ToDoubles());
}

TEST(Grad, NeedsAFloatingScalar) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var x = Leaf("x", kF64, {2});
  EXPECT_THROW(Grad(x, std::vector{x}), Error);
  EXPECT_THROW(Grad(ArgMax(x, 0), std::vector{x}), Error);
  EXPECT_THROW(Grad(SumAll(x), std::vector{x}, {x}), Error);
  EXPECT_THROW(Grad(SumAll(x), std::vector{x}, {Leaf("seed", DType::kF32, {})}), Error);
}

// Backward nodes carry the scope and the source line of their forward op.
TEST(Grad, NodesAreBackwardAndNameTheirForwardLine) {
  TraceBuilder trace;
  BuilderScope scope(trace);
  Var x = Leaf("x", kF64, {2}), y;
  {
    ModuleScope module("mlp");
    y = Exp(x);
  }
  size_t before = trace.nodes().size() + 1;
  Var loss = SumAll(y);
  Grad(loss, std::vector{x});
  for (size_t i = before; i < trace.nodes().size(); i++) {
    const Node& node = *trace.nodes()[i];
    EXPECT_EQ(node.phase, Phase::kBackward);
    if (node.op == Op::kMul) {
      EXPECT_EQ(*node.scope, "mlp");
      EXPECT_EQ(node.loc.line(), y.node().loc.line());
    }
  }
}

}  // namespace
}  // namespace weft
