#include "weft/core/ops/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <limits>
#include <numbers>

#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

void CheckHeads(const Node& node) {
  for (int i = 0; i < 3; i++) CheckRank(node, i, 4);
  const Shape &q = node.inputs[0].shape(), &k = node.inputs[1].shape();
  if (node.inputs[2].shape() != k || q[0] != k[0] || q[3] != k[3] || k[2] == 0 || q[2] % k[2])
    FailAt(node, fmt::format("expected q [B, T, H, D], k and v [B, S, G, D] with G dividing H, got {}, {}, {}",
                             ToString(q), ToString(k), ToString(node.inputs[2].shape())));
}
void InferSdpa(Node& node) {
  CheckHeads(node);
  const Var& q = node.inputs[0];
  AddOutput(node, q.dtype(), q.shape());
  AddOutput(node, AccumulateType(q.dtype()), {q.dim(0), q.dim(1), q.dim(2)});
}
void InferSdpaGrad(Node& node) {
  CheckHeads(node);
  for (int i = 0; i < 3; i++) AddOutput(node, node.inputs[size_t(i)].dtype(), node.inputs[size_t(i)].shape());
}
void InferRope(Node& node) {
  CheckRank(node, 0, 4);
  int64_t size = node.inputs[0].dim(3), rotated = RotatedDims(node.attrs, size);
  if (rotated % 2) FailAt(node, fmt::format("expected an even number of rotated dims, got {}", rotated));
  if (rotated < 2 || rotated > size)
    FailAt(node, fmt::format("expected 2 to {} rotated dims of a head, got {}", size, rotated));
  RopeScaling s = RopeScalingOf(node.attrs);
  if (!(s.factor > 0 && s.high > s.low && s.low > 0 && s.context > 0))
    FailAt(node, fmt::format("expected a factor > 0, high > low > 0 and a context > 0, got {}, {}, {} and {}", s.factor,
                             s.high, s.low, s.context));
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}

Dims::Group HeadGroup(const Node& node) { return {'h', 'g', node.inputs[0].dim(2) / node.inputs[1].dim(2), false}; }
Dims SdpaDims(const Node& node) {
  return {.in = {"bthd", "bsgd", "bsgd"}, .out = {"bthd", "bth"}, .blocked = "sd", .groups = {HeadGroup(node)}};
}
Dims SdpaGradDims(const Node& node) {
  return {.in = {"bthd", "bsgd", "bsgd", "bthd", "bth", "bthd"},
          .out = {"bthd", "bsgd", "bsgd"},
          .blocked = "sd",
          .groups = {HeadGroup(node)}};
}
Dims RopeDims(const Node&) { return {.in = {"bthd"}, .out = {"bthd"}, .blocked = "d", .linear = Linear::kJoint}; }

// Repeats each KV head for the query heads of its group.
Var RepeatHeads(const Var& kv, int64_t group) {
  return group == 1 ? kv : Merge(Broadcast(kv, 3, group), 2);  // [B, S, H, D]
}
// Returns the scaled scores, quadratic in sequence length. Tests compare kernels with this composition.
Var Scores(const Node& node, const Var& q, const Var& k) {
  return Scale(Einsum("bthd,bshd->bhts", q, k), node.attrs.Float("scale"));  // [B, H, T, S]
}
// Returns scores whose exponential is 0 if the key is not seen. It must be applied last before Exp, because masked
// scores may be infinite.
Var Masked(const Node& node, const Var& s) {
  if (!node.attrs.Int("causal")) return s;
  Var i = Iota(2, DType::kI64, s.shape()), j = Iota(3, DType::kI64, s.shape());
  Var seen = Le(j, AddScalar(i, double(node.attrs.Int("causal_offset"))));
  return Select(seen, s, Full(s.dtype() == DType::kF64 ? -1e300 : -1e30, s.dtype(), s.shape()));
}
Outputs FallbackSdpa(const Node& node) {
  DType dtype = node.inputs[0].dtype(), acc = AccumulateType(dtype);
  int64_t group = node.inputs[0].dim(2) / node.inputs[1].dim(2);
  Var q = Cast(node.inputs[0], acc), k = RepeatHeads(Cast(node.inputs[1], acc), group),
      v = RepeatHeads(Cast(node.inputs[2], acc), group);
  Var s = Scores(node, q, k);
  Var max = StopGradient(ReduceMax(Masked(node, s), 3));
  Var e = Exp(Masked(node, s - Broadcast(max, 3, s.dim(3))));
  Var sum = ReduceSum(e, 3);  // [B, H, T]
  // A row that sees no key has out 0 and lse -inf.
  auto full = [&](double value) { return Full(value, acc, sum.shape()); };
  Var any = Gt(sum, full(0)), divisor = Select(any, sum, full(1));
  Var out = Einsum("bhts,bshd->bthd", e / Broadcast(divisor, 3, s.dim(3)), v);
  Var lse = Select(any, Log(divisor) + max, full(-std::numeric_limits<double>::infinity()));
  return {Cast(out, dtype), Permute(lse, {0, 2, 1})};
}
Outputs FallbackSdpaGrad(const Node& node) {
  const auto& in = node.inputs;
  DType dtype = in[0].dtype(), acc = AccumulateType(dtype);
  int64_t group = in[0].dim(2) / in[1].dim(2);
  Var q = Cast(in[0], acc), k = RepeatHeads(Cast(in[1], acc), group), v = RepeatHeads(Cast(in[2], acc), group),
      dout = Cast(in[5], acc);
  Var s = Scores(node, q, k);
  Var p = Exp(Masked(node, s - Broadcast(Permute(in[4], {0, 2, 1}), 3, s.dim(3))));  // [B, H, T, S]
  Var delta = Permute(ReduceSum(dout * Cast(in[3], acc), 3), {0, 2, 1});             // [B, H, T]
  Var dp = Einsum("bthd,bshd->bhts", dout, v);
  Var ds = Scale(p * (dp - Broadcast(delta, 3, s.dim(3))), node.attrs.Float("scale"));
  auto fold = [&](const Var& x) {
    return Cast(group == 1 ? x : ReduceSum(Split(x, 2, group), 3), dtype);
  };  // [B, S, G, D]
  return {Cast(Einsum("bhts,bshd->bthd", ds, k), dtype), fold(Einsum("bhts,bthd->bshd", ds, q)),
          fold(Einsum("bhts,bthd->bshd", p, dout))};
}

void GradSdpa(GradCall& call) {
  Outputs d = Emit(Op::kSdpaGrad, call.node->attrs,
                   {call.in(0), call.in(1), call.in(2), call.out(0), call.out(1), call.dy[0]}, call.node->loc);
  for (size_t i = 0; i < 3; i++) call.dx[i] = d[i];
}

// Computes the formula of RopeScaling::operator() with ops.
Var Scaled(const Var& frequency, const RopeScaling& s) {
  if (s.factor == 1) return frequency;
  auto full = [&](double value) { return Full(value, frequency.dtype(), frequency.shape()); };  // [T, R/2]
  double share_of_turn = 1 / (s.high - s.low);
  Var share = AddScalar(Scale(frequency, share_of_turn * double(s.context) / (2 * std::numbers::pi)),
                        -share_of_turn * s.low);                               // [T, R/2]
  share = Minimum(Maximum(share, full(0)), full(1));                           // [T, R/2]
  return frequency * AddScalar(Scale(share, 1 - 1 / s.factor), 1 / s.factor);  // [T, R/2]
}

Outputs FallbackRope(const Node& node) {
  const Var& input = node.inputs[0];
  DType acc = AccumulateType(input.dtype());
  int64_t size = input.dim(3), rotated = RotatedDims(node.attrs, size), half = rotated / 2;
  int64_t tokens = input.dim(1), heads = input.dim(2);
  Var position =
      AddScalar(Cast(Iota(0, DType::kI64, {tokens, half}), acc), double(node.attrs.Int("start")));  // [T, R/2]
  Var pair = Cast(Iota(1, DType::kI64, {tokens, half}), acc);
  Var frequency = Exp(Scale(pair, -std::log(node.attrs.Float("theta")) / double(half)));  // [T, R/2]
  Var angle = position * Scaled(frequency, RopeScalingOf(node.attrs));                    // [T, R/2]
  if (node.attrs.Int("inverse")) angle = -angle;
  auto spread = [&](const Var& t) { return Broadcast(Broadcast(t, 1, heads), 0, input.dim(0)); };  // [B, T, H, R/2]
  Var c = spread(Cos(angle)), s = spread(Sin(angle));
  Var x = Cast(input, acc), x1 = Slice(x, 3, 0, half), x2 = Slice(x, 3, half, half);
  std::vector<Var> parts{x1 * c - x2 * s, x2 * c + x1 * s};
  if (rotated < size) parts.push_back(Slice(x, 3, rotated, size - rotated));
  return {Cast(Concat(parts, 3), input.dtype())};  // [B, T, H, D]
}
void GradRope(GradCall& call) {
  Attrs attrs = call.node->attrs;
  attrs.Set({"inverse", int(!attrs.Int("inverse"))});
  call.dx[0] = EmitOne(Op::kRope, attrs, {call.dy[0]}, call.node->loc);
}

std::vector<Sample> SamplesSdpa(Op op) {
  std::vector<Sample> samples;
  auto add = [&](int64_t T, int64_t S, int64_t H, int64_t G, bool causal, int64_t offset) {
    Shape q{2, T, H, 4}, k{2, S, G, 4};
    Sample sample{{{q}, {k}, {k}}, {{"causal", causal}, {"causal_offset", offset}, {"scale", 0.5}}};
    if (op == Op::kSdpaGrad) {
      sample.inputs.push_back({q});
      sample.inputs.push_back({{2, T, H}, Domain::kPositive, 0, true});
      sample.inputs.push_back({q});
    }
    samples.push_back(sample);
  };
  add(5, 5, 4, 4, true, 0);
  add(3, 5, 6, 2, true, 2);
  add(4, 3, 3, 1, false, 0);
  return samples;
}
std::vector<Sample> SamplesRope(Op) {
  return {{{{{2, 5, 3, 4}}}, {{"theta", 100.0}, {"inverse", 0}, {"start", 0}}},
          {{{{1, 4, 2, 6}}}, {{"theta", 1e4}, {"inverse", 1}, {"start", 3}}},
          // Frequencies that make 10, 3, 1 and a third turns in the context. The first stays, two are mixed, the last
          // is divided.
          {{{{1, 5, 2, 8}}},
           {{"theta", 100.0},
            {"inverse", 0},
            {"start", 40},
            {"factor", 8.0},
            {"low", 0.9},
            {"high", 4.0},
            {"context", 64}}},
          {{{{2, 5, 3, 10}}}, {{"theta", 100.0}, {"inverse", 0}, {"start", 2}, {"rotated", 4}}}};
}

}  // namespace

Var Sdpa(Var q, Var k, Var v, const SdpaOptions& options, Loc loc) {
  double scale = options.scale != 0 ? options.scale : 1.0 / std::sqrt(double(q.dim(-1)));
  return Emit(Op::kSdpa, {{"causal", options.causal}, {"causal_offset", options.causal_offset}, {"scale", scale}},
              {q, k, v}, loc)[0];
}
RopeScaling RopeScalingOf(const Attrs& attrs) {
  if (!attrs.Has("factor")) return {};
  return {attrs.Float("factor"), attrs.Float("low"), attrs.Float("high"), attrs.Int("context")};
}
int64_t RotatedDims(const Attrs& attrs, int64_t head_size) { return attrs.IntOr("rotated", head_size); }
Var Rope(Var x, const RopeOptions& options, Loc loc) {
  Attrs attrs{{"theta", options.theta}, {"inverse", 0}, {"start", 0}};
  if (options.rotated != 0 && options.rotated != x.dim(3)) attrs.Set({"rotated", options.rotated});
  const RopeScaling& s = options.scaling;
  if (s.factor != 1)
    for (const Attrs::Item& item :
         {Attrs::Item{"factor", s.factor}, {"low", s.low}, {"high", s.high}, {"context", s.context}})
      attrs.Set(item);
  return EmitOne(Op::kRope, attrs, {x}, loc);
}

void RegisterAttention(OpTable& t) {
  t[size_t(Op::kSdpa)] = {.op = Op::kSdpa,
                          .infer = InferSdpa,
                          .grad = GradSdpa,
                          .dims = SdpaDims,
                          .fallback = FallbackSdpa,
                          .samples = SamplesSdpa,
                          .products = 2};
  t[size_t(Op::kSdpaGrad)] = {.op = Op::kSdpaGrad,
                              .infer = InferSdpaGrad,
                              .dims = SdpaGradDims,
                              .fallback = FallbackSdpaGrad,
                              .samples = SamplesSdpa,
                              .products = 5};
  t[size_t(Op::kRope)] = {.op = Op::kRope,
                          .infer = InferRope,
                          .grad = GradRope,
                          .dims = RopeDims,
                          .fallback = FallbackRope,
                          .samples = SamplesRope};
}

}  // namespace weft
