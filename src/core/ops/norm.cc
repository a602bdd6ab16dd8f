#include "weft/core/ops/norm.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

Shape Rows(const Var& x) { return Shape(x.shape().begin(), x.shape().end() - 1); }
DType Acc(const Node& node) { return AccumulateType(node.inputs[0].dtype()); }

void CheckWeight(const Node& node, size_t i) {
  const Var &x = node.inputs[0], &w = node.inputs[i];
  if (x.rank() < 1 || w.rank() != 1 || w.dim(0) != x.dim(-1) || w.dtype() != Acc(node))
    FailAt(node, fmt::format("expected a {} of {} [{}], the width of {} in its accumulate type, got {}; cast it, or "
                             "build the norm with that width",
                             i == 1 ? "weight" : "bias", Name(Acc(node)), x.rank() ? x.dim(-1) : 1, ToString(x),
                             ToString(w)));
}
void InferForward(Node& node) {
  for (size_t i = 1; i < node.inputs.size(); i++) CheckWeight(node, i);
  const Var& x = node.inputs[0];
  double eps = node.attrs.Float("eps");
  if (!(eps >= 0) || std::isinf(eps))
    FailAt(node, fmt::format("expected a finite eps >= 0 for {}, got {}; 1e-5 is usual", ToString(x), eps));
  AddOutput(node, x.dtype(), x.shape());
  if (node.op == Op::kLayerNorm) AddOutput(node, Acc(node), Rows(x));
  AddOutput(node, Acc(node), Rows(x));
}
bool IsRmsGrad(Op op) { return op == Op::kRmsNormGrad || op == Op::kRmsNormGradAdd; }
bool AddsResidual(Op op) { return op == Op::kRmsNormGradAdd || op == Op::kLayerNormGradAdd; }
void InferGrad(Node& node) {
  CheckWeight(node, 1);
  const Var &x = node.inputs[0], &w = node.inputs[1];
  AddOutput(node, x.dtype(), x.shape());
  AddOutput(node, w.dtype(), w.shape());
  if (!IsRmsGrad(node.op)) AddOutput(node, w.dtype(), w.shape());
}

// A row statistic has the labels of x without the last one. If the last dim is sharded, the composition is needed.
Dims ForwardDims(const Node& node) {
  std::string all = Letters(node.inputs[0].rank()), rows = all.substr(0, all.size() - 1),
              last = all.substr(all.size() - 1);
  if (node.op == Op::kRmsNorm) return {.in = {all, last}, .out = {all, rows}, .whole = last};
  return {.in = {all, last, last}, .out = {all, rows, rows}, .whole = last};
}
Dims GradDims(const Node& node) {
  std::string all = Letters(node.inputs[0].rank()), rows = all.substr(0, all.size() - 1),
              last = all.substr(all.size() - 1);
  Dims dims{.in = {all, last, rows, rows, all}, .out = {all, last, last}, .whole = last};
  if (IsRmsGrad(node.op)) dims = {.in = {all, last, rows, all}, .out = {all, last}, .whole = last};
  if (AddsResidual(node.op)) dims.in.push_back(all);
  return dims;
}

// Helpers of the compositions. They compute in the accumulate type.
Var MeanOfRow(const Var& x) { return Scale(ReduceSum(x, -1), 1.0 / double(x.dim(-1))); }
Var AlongRow(const Var& rows, const Var& x) { return Broadcast(rows, x.rank() - 1, x.dim(-1)); }
Var SumOfRows(Var x) {
  while (x.rank() > 1) x = ReduceSum(x, 0);
  return x;
}

Outputs FallbackRms(const Node& node) {
  DType dtype = node.inputs[0].dtype();
  Var x = Cast(node.inputs[0], Acc(node)), w = node.inputs[1];
  Var rstd = Rsqrt(AddScalar(MeanOfRow(x * x), node.attrs.Float("eps")));
  return {Cast(x * AlongRow(rstd, x) * w, dtype), rstd};
}
Outputs FallbackLayer(const Node& node) {
  DType dtype = node.inputs[0].dtype();
  Var x = Cast(node.inputs[0], Acc(node)), w = node.inputs[1], b = node.inputs[2];
  Var mean = MeanOfRow(x);
  Var centered = x - AlongRow(mean, x);
  Var rstd = Rsqrt(AddScalar(MeanOfRow(centered * centered), node.attrs.Float("eps")));
  return {Cast(centered * AlongRow(rstd, x) * w + b, dtype), mean, rstd};
}
Outputs FallbackRmsGrad(const Node& node) {
  const auto& in = node.inputs;
  DType dtype = in[0].dtype(), acc = Acc(node);
  Var x = Cast(in[0], acc), w = in[1], dy = Cast(in[3], acc), rstd = AlongRow(in[2], x);
  Var normed = x * rstd, dn = dy * w;
  Var dx = rstd * (dn - normed * AlongRow(MeanOfRow(dn * normed), x));
  return {Cast(dx, dtype), SumOfRows(dy * normed)};
}
Outputs FallbackLayerGrad(const Node& node) {
  const auto& in = node.inputs;
  DType dtype = in[0].dtype(), acc = Acc(node);
  Var x = Cast(in[0], acc), w = in[1], dy = Cast(in[4], acc), rstd = AlongRow(in[3], x);
  Var normed = (x - AlongRow(in[2], x)) * rstd, dn = dy * w;
  Var dx = rstd * (dn - AlongRow(MeanOfRow(dn), x) - normed * AlongRow(MeanOfRow(dn * normed), x));
  return {Cast(dx, dtype), SumOfRows(dy * normed), SumOfRows(dy)};
}

Outputs FallbackGradAdd(const Node& node) {
  Op op = node.op == Op::kRmsNormGradAdd ? Op::kRmsNormGrad : Op::kLayerNormGrad;
  std::span<const Var> all = node.inputs;
  Outputs d = CurrentBuilder().Emit(op, node.attrs, all.first(all.size() - 1), node.loc);
  d[0] = d[0] + all.back();
  return d;
}

// Emits the fused gradient. It is valid if only y has a cotangent. If a statistic has one, Grad uses the composition.
void GradOf(GradCall& call, Op grad_op, std::initializer_list<Var> operands) {
  Outputs d = Emit(grad_op, call.node->attrs, operands, call.node->loc);
  for (size_t i = 0; i < d.size(); i++) call.dx[i] = d[i];
}
void GradRms(GradCall& call) { GradOf(call, Op::kRmsNormGrad, {call.in(0), call.in(1), call.out(1), call.dy[0]}); }
void GradLayer(GradCall& call) {
  GradOf(call, Op::kLayerNormGrad, {call.in(0), call.in(1), call.out(1), call.out(2), call.dy[0]});
}

std::vector<Sample> Samples(Op op) {
  Attrs attrs{{"eps", 1e-5}};
  std::vector<Sample> samples;
  for (const Shape& x : {Shape{2, 5, 6}, Shape{4, 7}}) {
    if (AddsResidual(op) && x.size() > 2) continue;  // six operands have enough placements in two dims
    Shape rows(x.begin(), x.end() - 1);
    SampleInput last{{x.back()}, Domain::kAny, 0, true}, stat{rows, Domain::kPositive, 0, true};
    if (op == Op::kRmsNorm) samples.push_back({{{x}, last}, attrs});
    if (op == Op::kLayerNorm) samples.push_back({{{x}, last, last}, attrs});
    if (op == Op::kRmsNormGrad) samples.push_back({{{x}, last, stat, {x}}, attrs});
    if (op == Op::kRmsNormGradAdd) samples.push_back({{{x}, last, stat, {x}, {x}}, attrs});
    if (op == Op::kLayerNormGrad) samples.push_back({{{x}, last, stat, stat, {x}}, attrs});
    if (op == Op::kLayerNormGradAdd) samples.push_back({{{x}, last, stat, stat, {x}, {x}}, attrs});
  }
  return samples;
}

}  // namespace

Var RmsNorm(Var x, Var weight, double eps, Loc loc) { return Emit(Op::kRmsNorm, {{"eps", eps}}, {x, weight}, loc)[0]; }
Var LayerNorm(Var x, Var weight, Var bias, double eps, Loc loc) {
  return Emit(Op::kLayerNorm, {{"eps", eps}}, {x, weight, bias}, loc)[0];
}

void RegisterNorm(OpTable& t) {
  t[size_t(Op::kRmsNorm)] = {.op = Op::kRmsNorm,
                             .infer = InferForward,
                             .grad = GradRms,
                             .dims = ForwardDims,
                             .fallback = FallbackRms,
                             .samples = Samples,
                             .early_operands = true};
  t[size_t(Op::kLayerNorm)] = {.op = Op::kLayerNorm,
                               .infer = InferForward,
                               .grad = GradLayer,
                               .dims = ForwardDims,
                               .fallback = FallbackLayer,
                               .samples = Samples,
                               .early_operands = true};
  t[size_t(Op::kRmsNormGrad)] = {.op = Op::kRmsNormGrad,
                                 .infer = InferGrad,
                                 .dims = GradDims,
                                 .fallback = FallbackRmsGrad,
                                 .samples = Samples,
                                 .with_residual = Op::kRmsNormGradAdd};
  t[size_t(Op::kLayerNormGrad)] = {.op = Op::kLayerNormGrad,
                                   .infer = InferGrad,
                                   .dims = GradDims,
                                   .fallback = FallbackLayerGrad,
                                   .samples = Samples,
                                   .with_residual = Op::kLayerNormGradAdd};
  for (Op op : {Op::kRmsNormGradAdd, Op::kLayerNormGradAdd})
    t[size_t(op)] = {op, InferGrad, nullptr, GradDims, FallbackGradAdd, Samples};
#define WEFT_BY_ROWS(Name, ...) t[size_t(Op::k##Name)].by_rows = true;
  WEFT_NORM_OPS(WEFT_BY_ROWS)
#undef WEFT_BY_ROWS
}

}  // namespace weft
