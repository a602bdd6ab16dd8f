#include "weft/core/ops/optimizer_ops.h"

#include <fmt/format.h>

#include <cmath>
#include <optional>

#include "weft/core/ops/ops.h"

namespace weft {
namespace {

// Operands: the parameter, its optimizer state, the gradient, lr, scale, updates. Results: the new parameter and state,
// and with the attribute `dtype` the new parameter in that dtype.
int Kept(const Node& node) { return int(node.inputs.size()) - 5; }
const Var& GradientOf(const Node& node) { return node.inputs[node.inputs.size() - 4]; }
const Var& RateOf(const Node& node) { return node.inputs[node.inputs.size() - 3]; }
const Var& ScaleOf(const Node& node) { return node.inputs[node.inputs.size() - 2]; }
const Var& UpdatesOf(const Node& node) { return node.inputs.back(); }
std::optional<DType> CopyOf(const Node& node) {
  int64_t dtype = node.attrs.IntOr("dtype", -1);
  return dtype < 0 ? std::nullopt : std::optional(DType(dtype));
}

void Infer(Node& node) {
  int tensors = Kept(node) + 2, operands = int(node.inputs.size());
  for (int i = 1; i < tensors; i++)
    if (node.inputs[size_t(i)].shape() != node.inputs[0].shape())
      FailAt(node, fmt::format("operand {} has shape {}, the parameter has {}", i,
                               ToString(node.inputs[size_t(i)].shape()), ToString(node.inputs[0].shape())));
  for (int i = tensors; i < operands; i++) CheckRank(node, i, 0);
  for (int i = 0; i < tensors - 1; i++) AddOutput(node, node.inputs[size_t(i)].dtype(), node.inputs[size_t(i)].shape());
  std::optional<DType> copy = CopyOf(node);
  if (!copy) return;
  DType own = node.inputs[0].dtype();
  if (own != AccumulateType(own) && *copy != own)  // a kernel rounds the copy from the type in which it computes
    FailAt(node, fmt::format("expected a copy in {}, as the parameter, got {}", Name(own), Name(*copy)));
  AddOutput(node, *copy, node.inputs[0].shape());
}

Dims UpdateDims(const Node& node) {
  std::string all = Letters(node.inputs[0].rank());
  Dims dims;
  for (int i = 0; i < Kept(node) + 2; i++) dims.in.push_back(all);
  for (int i = 0; i < 3; i++) dims.in.push_back("");
  for (size_t i = 0; i < node.outputs.size(); i++) dims.out.push_back(all);
  return dims;
}

// Returns an operand in the type in which the update is computed.
Var Wide(const Node& node, const Var& x) { return Cast(x, AccumulateType(node.inputs[0].dtype())); }
Var Gradient(const Node& node) {
  return Wide(node, GradientOf(node)) * BroadcastTo(ScaleOf(node), node.inputs[0].shape());
}
// p - lr * direction
Var Moved(const Node& node, const Var& direction) {
  return Wide(node, node.inputs[0]) - BroadcastTo(RateOf(node), node.inputs[0].shape()) * direction;
}
// Returns the next values in their operands' types, or the operands if there is no update.
Outputs Results(const Node& node, std::initializer_list<Var> next) {
  const Var& updates = UpdatesOf(node);
  Var any = BroadcastTo(Gt(updates, Full(0, updates.dtype(), {})), node.inputs[0].shape());
  Outputs results;
  for (const Var& value : next) {
    const Var& old = node.inputs[results.size()];
    results.push_back(Select(any, Cast(value, old.dtype()), old));
  }
  if (std::optional<DType> copy = CopyOf(node)) results.push_back(Cast(results[0], *copy));
  return results;
}

Outputs AdamWFallback(const Node& node) {
  double beta1 = node.attrs.Float("beta1"), beta2 = node.attrs.Float("beta2");
  Var p = Wide(node, node.inputs[0]), m = Wide(node, node.inputs[1]), v = Wide(node, node.inputs[2]);
  Var g = Gradient(node);
  // Without an update the result is not used. t is at least 1, so that it stays finite.
  Var t = Maximum(Wide(node, UpdatesOf(node)), Full(1, p.dtype(), {}));
  auto correction = [&](double beta) { return BroadcastTo(AddScalar(-Exp(Scale(t, std::log(beta))), 1.0), p.shape()); };
  m = Scale(m, beta1) + Scale(g, 1 - beta1);
  v = Scale(v, beta2) + Scale(g * g, 1 - beta2);
  Var update = m / correction(beta1) / AddScalar(Sqrt(v / correction(beta2)), node.attrs.Float("eps"));
  return Results(node, {Moved(node, update + Scale(p, node.attrs.Float("weight_decay"))), m, v});
}

Outputs SgdFallback(const Node& node) {
  double momentum = node.attrs.Float("momentum");
  Var d = Gradient(node) + Scale(Wide(node, node.inputs[0]), node.attrs.Float("weight_decay"));
  if (Kept(node) == 0) return Results(node, {Moved(node, d)});
  Var buf = Scale(Wide(node, node.inputs[1]), momentum) + d;
  return Results(node, {Moved(node, node.attrs.Int("nesterov") ? d + Scale(buf, momentum) : buf), buf});
}

Outputs LionFallback(const Node& node) {
  double beta1 = node.attrs.Float("beta1"), beta2 = node.attrs.Float("beta2");
  Var m = Wide(node, node.inputs[1]), g = Gradient(node);
  Var direction = Sign(Scale(m, beta1) + Scale(g, 1 - beta1));
  Var decay = Scale(Wide(node, node.inputs[0]), node.attrs.Float("weight_decay"));
  return Results(node, {Moved(node, direction + decay), Scale(m, beta2) + Scale(g, 1 - beta2)});
}

// Samples of updates with these attributes, for a parameter with optimizer state drawn from `kept`.
std::vector<Sample> SamplesOf(std::initializer_list<Domain> kept, const Attrs& attrs) {
  SampleInput scalar{{}, Domain::kPositive, 0, true}, first{{}, Domain::kOne}, none{{}, Domain::kIds, 1};
  auto sample = [&](const Shape& s, const SampleInput& updates) {
    std::vector<SampleInput> inputs = {SampleInput{s}};
    for (Domain domain : kept) inputs.push_back({s, domain});
    for (const SampleInput& rest : {SampleInput{s}, scalar, scalar, updates}) inputs.push_back(rest);
    return Sample{inputs, attrs};
  };
  // The sample without an update is a scalar, because the other two already cover placements.
  return {sample({5, 3}, first), sample({8}, first), sample({}, none)};
}

std::vector<Sample> AdamWSamples(Op) {
  Attrs attrs{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  return SamplesOf({Domain::kAny, Domain::kPositive}, attrs);
}
std::vector<Sample> SgdSamples(Op) {
  Attrs attrs{{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.1}};
  std::vector<Sample> samples = SamplesOf({Domain::kAny}, attrs);
  samples.push_back(SamplesOf({}, attrs).front());
  return samples;
}
std::vector<Sample> LionSamples(Op) {
  return SamplesOf({Domain::kAny}, {{"beta1", 0.9}, {"beta2", 0.99}, {"weight_decay", 0.1}});
}

}  // namespace

std::array<Var, 3> AdamW(Var p, Var m, Var v, Var g, Var lr, Var scale, Var updates, const AdamWOptions& o, Loc loc) {
  Attrs attrs{{"beta1", o.beta1}, {"beta2", o.beta2}, {"eps", o.eps}, {"weight_decay", o.weight_decay}};
  Outputs out = Emit(Op::kAdamW, std::move(attrs), {p, m, v, g, lr, scale, updates}, loc);
  return {out[0], out[1], out[2]};
}

std::array<Var, 2> Sgd(Var p, Var buf, Var g, Var lr, Var scale, Var updates, const SgdOptions& o, Loc loc) {
  Attrs attrs{{"momentum", o.momentum}, {"nesterov", o.nesterov}, {"weight_decay", o.weight_decay}};
  Outputs out = Emit(Op::kSgd, std::move(attrs), {p, buf, g, lr, scale, updates}, loc);
  return {out[0], out[1]};
}
Var Sgd(Var p, Var g, Var lr, Var scale, Var updates, double weight_decay, Loc loc) {
  Attrs attrs{{"momentum", 0.0}, {"nesterov", false}, {"weight_decay", weight_decay}};
  return Emit(Op::kSgd, std::move(attrs), {p, g, lr, scale, updates}, loc)[0];
}

std::array<Var, 2> Lion(Var p, Var m, Var g, Var lr, Var scale, Var updates, const LionOptions& o, Loc loc) {
  Attrs attrs{{"beta1", o.beta1}, {"beta2", o.beta2}, {"weight_decay", o.weight_decay}};
  Outputs out = Emit(Op::kLion, std::move(attrs), {p, m, g, lr, scale, updates}, loc);
  return {out[0], out[1]};
}

void RegisterOptimizer(OpTable& t) {
  t[size_t(Op::kAdamW)] = {.op = Op::kAdamW,
                           .infer = Infer,
                           .dims = UpdateDims,
                           .fallback = AdamWFallback,
                           .samples = AdamWSamples,
                           .writes_cast = true};
  t[size_t(Op::kSgd)] = {.op = Op::kSgd,
                         .infer = Infer,
                         .dims = UpdateDims,
                         .fallback = SgdFallback,
                         .samples = SgdSamples,
                         .writes_cast = true};
  t[size_t(Op::kLion)] = {.op = Op::kLion,
                          .infer = Infer,
                          .dims = UpdateDims,
                          .fallback = LionFallback,
                          .samples = LionSamples,
                          .writes_cast = true};
}

}  // namespace weft
