#include "weft/core/ops/optimizer_ops.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/core/ops/ops.h"

namespace weft {
namespace {

void Infer(Node& node) {
  for (int i = 1; i < 4; i++)
    if (node.inputs[size_t(i)].shape() != node.inputs[0].shape())
      FailAt(node, fmt::format("operand {} has shape {}, the parameter has {}", i,
                               ToString(node.inputs[size_t(i)].shape()), ToString(node.inputs[0].shape())));
  for (int i = 4; i < 7; i++) CheckRank(node, i, 0);
  for (int i = 0; i < 3; i++) AddOutput(node, node.inputs[size_t(i)].dtype(), node.inputs[size_t(i)].shape());
}

Dims AdamWDims(const Node& node) {
  std::string all = Letters(node.inputs[0].rank());
  return {.in = {all, all, all, all, "", "", ""}, .out = {all, all, all}};
}

Outputs Fallback(const Node& node) {
  const auto& in = node.inputs;
  double beta1 = node.attrs.Float("beta1"), beta2 = node.attrs.Float("beta2");
  DType acc = AccumulateType(in[0].dtype());
  const Shape& shape = in[0].shape();
  Var p = Cast(in[0], acc), m = Cast(in[1], acc), v = Cast(in[2], acc);
  Var g = Cast(in[3], acc) * BroadcastTo(in[5], shape);
  Var updates = BroadcastTo(Gt(in[6], Full(0, in[6].dtype(), {})), shape);
  Var t = Maximum(Cast(in[6], acc), Full(1, acc, {}));  // without an update nobody reads what it makes: keep it finite
  auto correction = [&](double beta) { return BroadcastTo(AddScalar(-Exp(Scale(t, std::log(beta))), 1.0), shape); };
  m = Scale(m, beta1) + Scale(g, 1 - beta1);
  v = Scale(v, beta2) + Scale(g * g, 1 - beta2);
  Var update = m / correction(beta1) / AddScalar(Sqrt(v / correction(beta2)), node.attrs.Float("eps"));
  p = p - BroadcastTo(in[4], shape) * (update + Scale(p, node.attrs.Float("weight_decay")));
  auto result = [&](const Var& next, const Var& old) { return Select(updates, Cast(next, old.dtype()), old); };
  return {result(p, in[0]), result(m, in[1]), result(v, in[2])};
}

std::vector<Sample> Samples(Op) {
  Attrs attrs{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  SampleInput scalar{{}, Domain::kPositive, 0, true}, first{{}, Domain::kOne}, none{{}, Domain::kIds, 1};
  std::vector<Sample> samples;
  for (const Shape& s : {Shape{5, 3}, Shape{8}})
    samples.push_back({{{s}, {s}, {s, Domain::kPositive}, {s}, scalar, scalar, first}, attrs});
  // No update: of a scalar, since placements have been tried by the others.
  samples.push_back({{{{}}, {{}}, {{}, Domain::kPositive}, {{}}, scalar, scalar, none}, attrs});
  return samples;
}

}  // namespace

std::array<Var, 3> AdamW(Var p, Var m, Var v, Var g, Var lr, Var scale, Var updates, const AdamWOptions& o, Loc loc) {
  Attrs attrs{{"beta1", o.beta1}, {"beta2", o.beta2}, {"eps", o.eps}, {"weight_decay", o.weight_decay}};
  Outputs out = Emit(Op::kAdamW, std::move(attrs), {p, m, v, g, lr, scale, updates}, loc);
  return {out[0], out[1], out[2]};
}

void RegisterOptimizer(OpTable& t) {
  t[size_t(Op::kAdamW)] = {Op::kAdamW, Infer, nullptr, AdamWDims, Fallback, Samples};
}

}  // namespace weft
