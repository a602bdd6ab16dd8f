#include "weft/core/ops/attention.h"

#include <fmt/format.h>

#include <cmath>
#include <numbers>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

void InferRope(Node& node) {
  CheckRank(node, 0, 4);
  int64_t size = node.inputs[0].dim(3), rotated = RotatedDims(node.attrs, size);
  if (rotated % 2 || rotated < 2 || rotated > size)
    FailAt(
        node,
        fmt::format(
            "expected an even number of rotated dims in [2, {}], the head size of {}, got {}; `rotated` says how many",
            size, ToString(node.inputs[0]), rotated));
  double theta = node.attrs.Float("theta");
  if (!(theta > 0) || std::isinf(theta))
    FailAt(node,
           fmt::format("expected a finite theta > 0 for {}, got {}; 10000 is usual", ToString(node.inputs[0]), theta));
  RopeScaling s = RopeScalingOf(node.attrs);
  if (!(s.factor > 0 && s.high > s.low && s.low > 0 && s.context > 0))
    FailAt(node, fmt::format("expected a scaling with a factor > 0, high > low > 0 and a context > 0 for {}, got {}, "
                             "{}, {} and {}; a factor of 1 is none",
                             ToString(node.inputs[0]), s.factor, s.high, s.low, s.context));
  if (node.inputs.size() > 1) {
    const Var& offsets = node.inputs[1];
    if (offsets.dtype() != DType::kI64 || offsets.shape() != Shape{node.inputs[0].dim(0)})
      FailAt(node, fmt::format("expected offsets of i64 [{}], one per sequence of {}, got {}; cast or slice them",
                               node.inputs[0].dim(0), ToString(node.inputs[0]), ToString(offsets)));
  }
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}

Dims RopeDims(const Node& node) {
  Dims dims{.in = {"bthd"}, .out = {"bthd"}, .blocked = "d", .positions = "t", .linear = Linear::kJoint};
  if (node.inputs.size() > 1) dims.in.push_back("b");
  return dims;
}

// Computes the formula of RopeScaling::operator() with ops.
Var Scaled(const Var& frequency, const RopeScaling& s) {
  if (s.factor == 1) return frequency;
  auto full = [&](double value) { return Full(value, frequency.dtype(), frequency.shape()); };  // [B, T, R/2]
  double share_of_turn = 1 / (s.high - s.low);
  Var share = AddScalar(Scale(frequency, share_of_turn * double(s.context) / (2 * std::numbers::pi)),
                        -share_of_turn * s.low);                               // [B, T, R/2]
  share = Minimum(Maximum(share, full(0)), full(1));                           // [B, T, R/2]
  return frequency * AddScalar(Scale(share, 1 - 1 / s.factor), 1 / s.factor);  // [B, T, R/2]
}

Outputs FallbackRope(const Node& node) {
  const Var& input = node.inputs[0];
  DType acc = AccumulateType(input.dtype());
  int64_t size = input.dim(3), rotated = RotatedDims(node.attrs, size), half = rotated / 2;
  int64_t rows = input.dim(0), tokens = input.dim(1), heads = input.dim(2);
  Var index = Iota(1, DType::kI64, {rows, tokens, half});                                                // [B, T, R/2]
  if (node.inputs.size() > 1) index = index + Broadcast(Broadcast(node.inputs[1], 1, tokens), 2, half);  // [B, T, R/2]
  Var position = AddScalar(Cast(index, acc), double(node.attrs.Int("start")));                           // [B, T, R/2]
  Var pair = Cast(Iota(2, DType::kI64, {rows, tokens, half}), acc);                                      // [B, T, R/2]
  Var frequency = Exp(Scale(pair, -std::log(node.attrs.Float("theta")) / double(half)));                 // [B, T, R/2]
  Var angle = position * Scaled(frequency, RopeScalingOf(node.attrs));                                   // [B, T, R/2]
  if (node.attrs.Int("inverse")) angle = -angle;
  Var c = Broadcast(Cos(angle), 2, heads), s = Broadcast(Sin(angle), 2, heads);  // [B, T, H, R/2]
  Var x = Cast(input, acc), x1 = Slice(x, 3, 0, half), x2 = Slice(x, 3, half, half);
  std::vector<Var> parts{x1 * c - x2 * s, x2 * c + x1 * s};
  if (rotated < size) parts.push_back(Slice(x, 3, rotated, size - rotated));
  return {Cast(Concat(parts, 3), input.dtype())};  // [B, T, H, D]
}
void GradRope(GradCall& call) {
  Attrs attrs = call.node->attrs;
  attrs.Set({"inverse", int(!attrs.Int("inverse"))});
  std::vector<Var> operands{call.dy[0]};
  operands.insert(operands.end(), call.node->inputs.begin() + 1, call.node->inputs.end());
  call.dx[0] = CurrentBuilder().Emit(Op::kRope, attrs, operands, call.node->loc)[0];
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
          {{{{2, 5, 3, 10}}}, {{"theta", 100.0}, {"inverse", 0}, {"start", 2}, {"rotated", 4}}},
          {{{{3, 4, 2, 4}}, {{3}, Domain::kIds, 40}}, {{"theta", 100.0}, {"inverse", 0}, {"start", 1}}}};
}

}  // namespace

RopeScaling RopeScalingOf(const Attrs& attrs) {
  if (!attrs.Has("factor")) return {};
  return {attrs.Float("factor"), attrs.Float("low"), attrs.Float("high"), attrs.Int("context")};
}
int64_t RotatedDims(const Attrs& attrs, int64_t head_size) { return attrs.IntOr("rotated", head_size); }
Var Rope(Var x, const RopeOptions& options, Loc loc) {
  Attrs attrs{{"theta", options.theta}, {"inverse", 0}, {"start", 0}};
  CheckAssigned(x, "rope", loc);
  bool heads = x.rank() == 4;  // the op refuses others
  if (options.rotated != 0 && !(heads && options.rotated == x.dim(3))) attrs.Set({"rotated", options.rotated});
  const RopeScaling& s = options.scaling;
  if (s.factor != 1)
    for (const Attrs::Item& item :
         {Attrs::Item{"factor", s.factor}, {"low", s.low}, {"high", s.high}, {"context", s.context}})
      attrs.Set(item);
  std::vector<Var> operands{x};
  if (options.offsets.defined()) operands.push_back(options.offsets);
  return CurrentBuilder().Emit(Op::kRope, attrs, operands, loc)[0];
}

void RegisterAttention(OpTable& t) {
  RegisterSdpa(t);
  t[size_t(Op::kRope)] = {.op = Op::kRope,
                          .infer = InferRope,
                          .grad = GradRope,
                          .dims = RopeDims,
                          .fallback = FallbackRope,
                          .samples = SamplesRope,
                          .by_rows = true};
}

}  // namespace weft
