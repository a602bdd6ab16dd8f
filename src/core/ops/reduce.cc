#include "weft/core/ops/reduce.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

Shape Without(Shape shape, int dim) {
  shape.erase(shape.begin() + dim);
  return shape;
}
int DimOf(const Node& node) { return int(node.attrs.Int("dim")); }

void Infer(Node& node) { AddOutput(node, node.inputs[0].dtype(), Without(node.inputs[0].shape(), DimOf(node))); }
void InferSum(Node& node) {
  DType dtype = node.inputs[0].dtype();
  bool wide = IsFloating(dtype) && node.attrs.IntOr("wide", 0);
  AddOutput(node, wide ? AccumulateType(dtype) : dtype, Without(node.inputs[0].shape(), DimOf(node)));
}
void InferArgMax(Node& node) {
  const Var& x = node.inputs[0];
  if (x.dim(DimOf(node)) == 0)
    FailAt(node, fmt::format("expected elements in dim {}, got {}; leave out empty tensors", DimOf(node), ToString(x)));
  AddOutput(node, DType::kI64, Without(x.shape(), DimOf(node)));
}
void InferCumSum(Node& node) { AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape()); }
void InferSumOfSquares(Node& node) { AddOutput(node, AccumulateType(node.inputs[0].dtype()), {}); }

Dims ReduceDims(const Node& node, ReduceOp reduce, Linear linear) {
  std::string labels = Letters(node.inputs[0].rank()), out = labels;
  out.erase(size_t(DimOf(node)), 1);
  return {.in = {labels}, .out = {out}, .linear = linear, .reduce = reduce};
}
Dims SumDims(const Node& node) { return ReduceDims(node, ReduceOp::kSum, Linear::kJoint); }
Dims MaxDims(const Node& node) { return ReduceDims(node, ReduceOp::kMax, Linear::kNone); }
Dims MinDims(const Node& node) { return ReduceDims(node, ReduceOp::kMin, Linear::kNone); }
Dims ProdDims(const Node& node) {
  Dims dims = ReduceDims(node, ReduceOp::kSum, Linear::kNone);
  dims.blocked = dims.in[0][size_t(DimOf(node))];  // there is no Partial(prod)
  return dims;
}
Dims ArgMaxDims(const Node& node) {
  Dims dims = ReduceDims(node, ReduceOp::kSum, Linear::kNone);
  dims.whole = dims.in[0][size_t(DimOf(node))];
  return dims;
}
// A running sum crosses chunk boundaries, so its dim must not be sharded.
Dims CumSumDims(const Node& node) {
  std::string labels = Letters(node.inputs[0].rank());
  return {.in = {labels}, .out = {labels}, .blocked = labels.substr(size_t(DimOf(node)), 1), .linear = Linear::kJoint};
}
Dims SumOfSquaresDims(const Node& node) { return {.in = {Letters(node.inputs[0].rank())}, .out = {""}}; }

Var Expand(const Var& reduced, const GradCall& call) {
  int dim = DimOf(*call.node);
  return Broadcast(reduced, dim, call.in(0).dim(dim));
}
void GradSum(GradCall& call) { call.dx[0] = Cast(Expand(call.dy[0], call), call.in(0).dtype()); }
// Tied elements share the gradient equally.
void GradExtremum(GradCall& call) {
  Var hit = Cast(Eq(call.in(0), Expand(call.out(0), call)), call.dy[0].dtype());
  Var share = call.dy[0] / ReduceSum(hit, DimOf(*call.node));
  call.dx[0] = hit * Expand(share, call);
}
// The gradient of an element is the product of the other elements. If another element is 0, it is 0. Otherwise it is
// the product of all nonzero elements divided by this one. In a second derivative, zeros count as constants.
void GradProd(GradCall& call) {
  const Var& x = call.in(0);
  int dim = DimOf(*call.node);
  Var zero = Cast(Eq(x, Full(0, x.dtype(), x.shape())), x.dtype());
  Var nonzero = x + zero;
  Var others = Expand(ReduceProd(nonzero, dim), call) / nonzero;
  Var other_zeros = Expand(ReduceSum(zero, dim), call) - zero;
  Var dy = Expand(call.dy[0], call);
  call.dx[0] = Select(Eq(other_zeros, Full(0, x.dtype(), x.shape())), dy * others, Full(0, x.dtype(), x.shape()));
}
// The gradient of element i is the sum of dy from i on: the total minus the sum before i.
void GradCumSum(GradCall& call) {
  const Var& dy = call.dy[0];
  int dim = DimOf(*call.node);
  call.dx[0] = Broadcast(ReduceSum(dy, dim), dim, dy.dim(dim)) - CumSum(dy, dim) + dy;
}
void GradSumOfSquares(GradCall& call) {
  Var two_dy = Cast(Scale(call.dy[0], 2.0), call.in(0).dtype());
  call.dx[0] = call.in(0) * BroadcastTo(two_dy, call.in(0).shape());
}
void NoGrad(GradCall&) {}

// Takes the largest value, then the lowest index that has it. This is correct for any sharding of the dim. NaN differs
// from itself, and counts as the largest value.
Outputs FallbackArgMax(const Node& node) {
  const Var& x = node.inputs[0];
  int dim = DimOf(node);
  Var is_max = Eq(x, Broadcast(ReduceMax(x, dim), dim, x.dim(dim)));
  if (IsFloating(x.dtype())) is_max = Or(is_max, Ne(x, x));
  Var none = Full(double(x.dim(dim)), DType::kI64, x.shape());
  return {ReduceMin(Select(is_max, Iota(dim, DType::kI64, x.shape()), none), dim)};
}

std::vector<Sample> Samples(Op op) {
  Domain domain = op == Op::kReduceProd ? Domain::kPositive : Domain::kAny;
  return {
      {{{{5, 3}, domain}}, {{"dim", 0}}}, {{{{4, 6}, domain}}, {{"dim", 1}}}, {{{{2, 7, 3}, domain}}, {{"dim", 1}}}};
}
std::vector<Sample> SamplesSum(Op op) {
  std::vector<Sample> samples = Samples(op);
  samples.push_back({{{{4, 6}}}, {{"dim", 0}, {"wide", 1}}});
  return samples;
}
std::vector<Sample> SamplesSumOfSquares(Op) { return {{{{{5, 3}}}}, {{{{8}}}}}; }

Var Reduce(Op op, const Var& x, int dim, const Loc& loc) {
  return EmitOne(op, {{"dim", CheckedDim(x, dim, Name(op), loc)}}, {x}, loc);
}

}  // namespace

Var ReduceSum(Var x, int dim, Loc loc) { return Reduce(Op::kReduceSum, x, dim, loc); }
Var ReduceMax(Var x, int dim, Loc loc) { return Reduce(Op::kReduceMax, x, dim, loc); }
Var ReduceMin(Var x, int dim, Loc loc) { return Reduce(Op::kReduceMin, x, dim, loc); }
Var ReduceProd(Var x, int dim, Loc loc) { return Reduce(Op::kReduceProd, x, dim, loc); }
Var ArgMax(Var x, int dim, Loc loc) { return Reduce(Op::kArgMax, x, dim, loc); }
Var CumSum(Var x, int dim, Loc loc) { return Reduce(Op::kCumSum, x, dim, loc); }
Var SumOfSquares(Var x, Loc loc) { return EmitOne(Op::kSumOfSquares, {}, {x}, loc); }

Var SumAll(Var x, Loc loc) {
  while (x.rank() > 0) x = ReduceSum(x, x.rank() - 1, loc);
  return x;
}

void RegisterReduce(OpTable& t) {
  t[size_t(Op::kReduceSum)] = {
      .op = Op::kReduceSum, .infer = InferSum, .grad = GradSum, .dims = SumDims, .samples = SamplesSum};
  t[size_t(Op::kReduceMax)] = {
      .op = Op::kReduceMax, .infer = Infer, .grad = GradExtremum, .dims = MaxDims, .samples = Samples};
  t[size_t(Op::kReduceMin)] = {
      .op = Op::kReduceMin, .infer = Infer, .grad = GradExtremum, .dims = MinDims, .samples = Samples};
  t[size_t(Op::kReduceProd)] = {
      .op = Op::kReduceProd, .infer = Infer, .grad = GradProd, .dims = ProdDims, .samples = Samples};
  t[size_t(Op::kArgMax)] = {.op = Op::kArgMax,
                            .infer = InferArgMax,
                            .grad = NoGrad,
                            .dims = ArgMaxDims,
                            .fallback = FallbackArgMax,
                            .samples = Samples};
  t[size_t(Op::kCumSum)] = {
      .op = Op::kCumSum, .infer = InferCumSum, .grad = GradCumSum, .dims = CumSumDims, .samples = Samples};
  t[size_t(Op::kSumOfSquares)] = {.op = Op::kSumOfSquares,
                                  .infer = InferSumOfSquares,
                                  .grad = GradSumOfSquares,
                                  .dims = SumOfSquaresDims,
                                  .samples = SamplesSumOfSquares};
  for (Op op : {Op::kReduceSum, Op::kReduceMax, Op::kReduceMin}) t[size_t(op)].by_rows = true;
}

}  // namespace weft
