// Fusing the last product and the cross-entropy into one op keeps the results of a program. Programs that must not be
// fused stay as they are.
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/testing.h"
#include "weft/core/compile/executable.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/passes/fuse.h"
#include "weft/core/transforms/grad.h"
#include "weft/kernels/cpu/backend/register.h"

namespace weft {
namespace {

using test::Draw;
using test::Traced;
using test::Values;
constexpr int64_t B = 2, T = 3, C = 4, V = 7;

double Get(const TensorView& v, int64_t i) {
  Tensor one = Tensor::Zeros(v.dtype, {});
  std::memcpy(one.data(), v.as<char>() + size_t(i) * SizeOf(v.dtype), SizeOf(v.dtype));
  return one.Item();
}
void Set(const TensorView& v, int64_t i, double value) {
  Tensor one = Tensor::Scalar(value, v.dtype);
  std::memcpy(v.as<char>() + size_t(i) * SizeOf(v.dtype), one.data(), SizeOf(v.dtype));
}

// Computes both ops from their definition, over dense views.
void LossOfProduct(const KernelCall& call) {
  const TensorView &x = call.in[0], &w = call.in[1], &targets = call.in[2];
  bool gradient = call.in.size() == 4;
  int64_t rows = targets.NumElements();
  std::vector<double> dx(size_t(rows * C)), dw(size_t(V * C));
  for (int64_t r = 0; r < rows; r++) {
    double z[V], sum = 0, mean = 0, e = call.attrs->Float("smoothing");
    for (int64_t v = 0; v < V; v++) {
      z[v] = 0;
      for (int64_t c = 0; c < C; c++) z[v] += Get(x, r * C + c) * Get(w, v * C + c);
      sum += std::exp(z[v]), mean += z[v] / double(V);
    }
    auto target = int64_t(Get(targets, r));
    bool ignored = target == call.attrs->Int("ignore_index");
    Set(call.out[0], r, ignored ? 0 : std::log(sum) - (1 - e) * z[target] - e * mean);
    for (int64_t v = 0; gradient && !ignored && v < V; v++) {
      double d = Get(call.in[3], r) * (std::exp(z[v]) / sum - (1 - e) * (v == target) - e / double(V));
      for (int64_t c = 0; c < C; c++) {
        dx[size_t(r * C + c)] += d * Get(w, v * C + c);
        dw[size_t(v * C + c)] += d * Get(x, r * C + c);
      }
    }
  }
  for (size_t i = 0; gradient && i < dx.size(); i++) Set(call.out[1], int64_t(i), dx[i]);
  for (size_t i = 0; gradient && i < dw.size(); i++) Set(call.out[2], int64_t(i), dw[i]);
}

struct Options {
  DType dtype = DType::kF64;
  double smoothing = 0;
  bool gradient = true;
  bool tied = false;         // w is also the embedding table that x comes from, so its gradient is a sum
  bool logits_read = false;  // another op reads the logits
  bool squared = false;      // the gradient of a loss depends on the loss
};

Traced Head(const Options& o) {
  DType wide = AccumulateType(o.dtype);
  Var w = ParameterLeaf("w", wide, {V, C}, {Replicate()}), x = ParameterLeaf("x", wide, {B, T, C}, {Replicate()});
  Var ids = Leaf("ids", DType::kI64, {B, T}), weight = Cast(w, o.dtype), h = Cast(x, o.dtype);
  if (o.tied) h = h + Embedding(weight, Leaf("inputs", DType::kI64, {B, T}));
  Var logits = Einsum("btc,vc->btv", h, weight);  // [B, T, V]
  Var losses = CrossEntropy(logits, ids, {.smoothing = o.smoothing});
  if (o.squared) losses = losses * losses;
  Traced traced{{{"loss", SumAll(losses)}}};
  if (o.logits_read) traced.outputs.push_back({"logits", logits});
  if (!o.gradient) return traced;
  std::vector<Var> d = Grad(traced.outputs[0].value, {x, w});
  traced.outputs.push_back({"dx", d[0]});
  traced.outputs.push_back({"dw", d[1]});
  return traced;
}

struct Fixture {
  Context context{0, 1, 1};
  MeshShape mesh{{"x"}, {1}};
  Runtime runtime{&context, nullptr, mesh, {0}};
  Fixture() {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    for (Op op : {Op::kLinearCrossEntropy, Op::kLinearCrossEntropyGrad})
      context.kernels(DeviceKind::kCpu).Add(op, {.run = &LossOfProduct});
  }
  Values Run(const LocalProgram& program, const Values& leaves) {
    auto bind = [&](const std::string& name, const ValueInfo&) { return leaves.at(name); };
    Executable executable(MakePlan(program, runtime), runtime, bind);
    executable.Run();
    Values values;
    for (const NamedValue& out : program.graph.outputs) values[out.name] = executable.Output(out.name);
    return values;
  }
};

int CountOf(const Graph& graph, Op op) {
  return int(std::count_if(graph.nodes.begin(), graph.nodes.end(), [&](const auto& n) { return n->op == op; }));
}

Tensor Ids(const std::vector<double>& ids) { return Tensor::FromDoubles(ids, DType::kI64, {B, T}); }

// Checks which op the fused program has, and that its values stay.
void Check(const Options& o, Op expected) {
  Fixture f;
  Values leaves{{"x", Draw({B, T, C}, 1, AccumulateType(o.dtype))},
                {"w", Draw({V, C}, 2, AccumulateType(o.dtype))},
                {"ids", Ids({3, -100, 0, 6, 2, 2})},
                {"inputs", Ids({1, 1, 0, 5, 2, 1})}};
  LocalProgram program = Partition(test::Trace([&] { return Head(o); }), {.mesh = f.mesh});
  LocalProgram fused = Fuse(program, f.context.kernels(DeviceKind::kCpu));
  for (Op op : {Op::kLinearCrossEntropy, Op::kLinearCrossEntropyGrad})
    EXPECT_EQ(CountOf(fused.graph, op), int(op == expected)) << Print(fused.graph);
  if (expected != Op::kCount) {
    EXPECT_EQ(CountOf(fused.graph, Op::kCrossEntropy) + CountOf(fused.graph, Op::kCrossEntropyGrad), 0);
  }
  Values want = f.Run(program, leaves), got = f.Run(fused, leaves);
  // In bf16 the composition rounds the logits and their gradient by up to 2^-9 each, before sums of up to seven terms.
  double tolerance = o.dtype == DType::kF64 ? 1e-12 : 0.05;
  for (const auto& [name, value] : want) EXPECT_LE(test::LargestDifference(got.at(name), value), tolerance) << name;
}

TEST(FuseLoss, KeepsValues) {
  for (DType dtype : {DType::kF64, DType::kBF16})
    for (double smoothing : {0.0, 0.1})
      for (bool tied : {false, true})
        Check({.dtype = dtype, .smoothing = smoothing, .tied = tied}, Op::kLinearCrossEntropyGrad);
}
TEST(FuseLoss, TakesALossAlone) { Check({.smoothing = 0.1, .gradient = false}, Op::kLinearCrossEntropy); }
TEST(FuseLoss, LeavesLogitsThatOthersRead) {
  for (bool gradient : {false, true}) Check({.gradient = gradient, .logits_read = true}, Op::kCount);
}
TEST(FuseLoss, LeavesAGradientThatNeedsTheLoss) { Check({.squared = true}, Op::kCount); }

}  // namespace
}  // namespace weft
