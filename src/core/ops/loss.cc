#include "weft/core/ops/loss.h"

#include <fmt/format.h>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

DType Acc(const Node& node) { return AccumulateType(node.inputs[0].dtype()); }

void Check(const Node& node) {
  const Var &logits = node.inputs[0], &targets = node.inputs[1];
  Shape rows(logits.shape().begin(), logits.shape().end() - (logits.rank() ? 1 : 0));
  bool ids = targets.dtype() == DType::kI32 || targets.dtype() == DType::kI64;
  if (logits.rank() < 1 || !IsFloating(logits.dtype()) || targets.shape() != rows || !ids)
    FailAt(node, fmt::format("expected logits of floats [..., V] and targets of i32 or i64 [...], got {} and {}; "
                             "targets are ids, without the dim V",
                             ToString(logits), ToString(targets)));
}
void Infer(Node& node) {
  Check(node);
  for (int i = 0; i < 2; i++) AddOutput(node, Acc(node), node.inputs[1].shape());
}
void InferGrad(Node& node) {
  Check(node);
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}

IntegerRange Targets(const Node& node, int) { return {0, node.inputs[0].shape().back() - 1}; }
IntegerRange LinearTargets(const Node& node, int) { return {0, node.inputs[1].shape()[0] - 1}; }

Dims ForwardDims(const Node& node) {
  std::string rows = Letters(node.inputs[1].rank());
  return {.in = {rows + "z", rows}, .out = {rows, rows}, .whole = "z"};
}
Dims GradDims(const Node& node) {
  std::string rows = Letters(node.inputs[1].rank());
  return {.in = {rows + "z", rows, rows, rows}, .out = {rows + "z"}};
}

// Returns per_row where the target is not ignored, and 0 elsewhere.
Var Counted(const Node& node, const Var& per_row) {
  const Var& targets = node.inputs[1];
  Var valid = Ne(targets, Full(double(node.attrs.Int("ignore_index")), targets.dtype(), targets.shape()));  // [...]
  return Select(valid, per_row, Full(0, per_row.dtype(), per_row.shape()));                                 // [...]
}
Var WideSum(const Var& x) { return EmitOne(Op::kReduceSum, {{"dim", x.rank() - 1}, {"wide", 1}}, {x}, x.node().loc); }

// With a sharded vocabulary the max, the sum of exponentials and the target's logit each need one small all-reduce. No
// rank makes a copy of its logits.
Outputs Fallback(const Node& node) {
  const Var &x = node.inputs[0], &targets = node.inputs[1];
  int dim = x.rank() - 1;
  double smoothing = node.attrs.Float("smoothing");
  Var max = StopGradient(Cast(ReduceMax(x, dim), Acc(node)));                           // [...]
  Var lse = Log(SumExp(x, max)) + max;                                                  // [...]
  Var picked = Cast(Squeeze(Gather(x, Unsqueeze(targets, dim), dim), dim), Acc(node));  // [...]
  Var loss = lse - Scale(picked, 1 - smoothing);                                        // [...]
  if (smoothing != 0) loss = loss - Scale(WideSum(x), smoothing / double(x.dim(-1)));
  return {Counted(node, loss), lse};
}
Outputs FallbackGrad(const Node& node) {
  const Var &targets = node.inputs[1], &lse = node.inputs[2], &dloss = node.inputs[3];
  Var x = Cast(node.inputs[0], Acc(node));  // [..., V]
  int dim = x.rank() - 1;
  int64_t vocab = x.dim(-1);
  double smoothing = node.attrs.Float("smoothing");
  Var hit = Eq(Iota(dim, targets.dtype(), x.shape()), Broadcast(targets, dim, vocab));  // [..., V]
  Var softmax = Exp(x - Broadcast(lse, dim, vocab));                                    // [..., V]
  Var d = softmax - Scale(Cast(hit, x.dtype()), 1 - smoothing);                         // [..., V]
  if (smoothing != 0) d = AddScalar(d, -smoothing / double(vocab));
  return {Cast(d * Broadcast(Counted(node, dloss), dim, vocab), node.inputs[0].dtype())};
}

void InferSumExp(Node& node) {
  const Var &x = node.inputs[0], &shift = node.inputs[1];
  Shape rows(x.shape().begin(), x.shape().end() - (x.rank() ? 1 : 0));
  if (x.rank() < 1 || !IsFloating(x.dtype()) || shift.shape() != rows || shift.dtype() != Acc(node))
    FailAt(node, fmt::format("expected x [..., V] and a shift [...] of its accumulate type, got {} {} and {} {}",
                             Name(x.dtype()), ToString(x.shape()), Name(shift.dtype()), ToString(shift.shape())));
  AddOutput(node, Acc(node), rows);
}
Dims SumExpDims(const Node& node) {
  std::string rows = Letters(node.inputs[1].rank());
  return {.in = {rows + "z", rows}, .out = {rows}};
}
Outputs FallbackSumExp(const Node& node) {
  Var x = Cast(node.inputs[0], Acc(node));  // [..., V]
  int dim = x.rank() - 1;
  return {ReduceSum(Exp(x - Broadcast(node.inputs[1], dim, x.dim(-1))), dim)};
}
std::vector<Sample> SamplesSumExp(Op) {
  return {{{{{2, 5, 8}}, {{2, 5}, Domain::kAny, 0, true}}}, {{{{6, 7}}, {{6}, Domain::kAny, 0, true}}}};
}

void Grad(GradCall& call) {
  call.dx[0] = EmitOne(Op::kCrossEntropyGrad, call.node->attrs, {call.in(0), call.in(1), call.out(1), call.dy[0]},
                       call.node->loc);
}

std::vector<Sample> Samples(Op op) {
  std::vector<Sample> samples;
  for (double smoothing : {0.0, 0.1}) {
    for (const Shape& rows : {Shape{2, 5}, Shape{6}}) {
      Shape x = rows;
      x.push_back(smoothing != 0 ? 7 : 8);
      Sample s{{{x}, {rows, Domain::kIdsOrIgnored, x.back()}}, {{"ignore_index", -100}, {"smoothing", smoothing}}};
      if (op == Op::kCrossEntropyGrad) {
        s.inputs.push_back({rows, Domain::kPositive, 0, true});
        s.inputs.push_back({rows, Domain::kAny, 0, true});
      }
      samples.push_back(s);
    }
  }
  return samples;
}

void CheckLinear(const Node& node) {
  const Var &x = node.inputs[0], &w = node.inputs[1], &targets = node.inputs[2];
  Shape rows(x.shape().begin(), x.shape().end() - (x.rank() ? 1 : 0));
  if (x.rank() < 1 || w.rank() != 2 || w.dim(1) != x.dim(-1) || w.dtype() != x.dtype() || targets.shape() != rows ||
      IsFloating(targets.dtype()))
    FailAt(node, fmt::format("expected x [..., C], w [V, C] of its dtype and integer targets [...], got {} {}, {} {} "
                             "and {} {}",
                             Name(x.dtype()), ToString(x.shape()), Name(w.dtype()), ToString(w.shape()),
                             Name(targets.dtype()), ToString(targets.shape())));
}
void InferLinear(Node& node) {
  CheckLinear(node);
  AddOutput(node, Acc(node), node.inputs[2].shape());
}
void InferLinearGrad(Node& node) {
  InferLinear(node);
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
  AddOutput(node, Acc(node), node.inputs[1].shape());
}

Dims LinearForwardDims(const Node& node) {
  std::string rows = Letters(node.inputs[2].rank());
  return {.in = {rows + "y", "zy", rows}, .out = {rows}, .whole = "yz"};
}
Dims LinearGradDims(const Node& node) {
  std::string rows = Letters(node.inputs[2].rank());
  return {.in = {rows + "y", "zy", rows, rows}, .out = {rows, rows + "y", "zy"}, .whole = "yz"};
}

// The logits, and their loss and lse.
struct Composed {
  std::string rows;
  Var logits;
  Outputs loss;
  explicit Composed(const Node& node) : rows(Letters(node.inputs[2].rank())) {
    logits = Einsum(rows + "y,zy->" + rows + "z", node.inputs[0], node.inputs[1]);  // [..., V]
    loss = Emit(Op::kCrossEntropy, node.attrs, {logits, node.inputs[2]}, node.loc);
  }
};
Outputs LinearFallback(const Node& node) { return {Composed(node).loss[0]}; }
Outputs LinearFallbackGrad(const Node& node) {
  Composed c(node);
  Var dlogits = EmitOne(Op::kCrossEntropyGrad, node.attrs, {c.logits, node.inputs[2], c.loss[1], node.inputs[3]},
                        node.loc);                                             // [..., V]
  Var dx = Einsum(c.rows + "z,zy->" + c.rows + "y", dlogits, node.inputs[1]);  // [..., C]
  Var dw = Einsum(c.rows + "z," + c.rows + "y->zy", dlogits, node.inputs[0]);  // [V, C]
  return {c.loss[0], dx, Cast(dw, Acc(node))};
}

std::vector<Sample> LinearSamples(Op op) {
  std::vector<Sample> samples;
  for (const Shape& rows : {Shape{6}, Shape{2, 5}}) {
    Shape x = rows;
    x.push_back(4);
    double smoothing = rows.size() == 1 ? 0.1 : 0.0;
    Sample s{{{x}, {{8, 4}}, {rows, Domain::kIdsOrIgnored, 8}}, {{"ignore_index", -100}, {"smoothing", smoothing}}};
    if (op == Op::kLinearCrossEntropyGrad) s.inputs.push_back({rows, Domain::kAny, 0, true});
    samples.push_back(s);
  }
  return samples;
}

}  // namespace

Var SumExp(Var x, Var shift, Loc loc) { return EmitOne(Op::kSumExp, {}, {x, shift}, loc); }

Var CrossEntropy(Var logits, Var targets, const CrossEntropyOptions& options, Loc loc) {
  WEFT_CHECK(options.smoothing >= 0 && options.smoothing < 1,
             fmt::format("cross_entropy at {}: expected smoothing in [0, 1), got {}; 0 is none", ToString(loc),
                         options.smoothing));
  return Emit(Op::kCrossEntropy, {{"ignore_index", options.ignore_index}, {"smoothing", options.smoothing}},
              {logits, targets}, loc)[0];
}

void RegisterLoss(OpTable& t) {
  t[size_t(Op::kSumExp)] = {.op = Op::kSumExp,
                            .infer = InferSumExp,
                            .dims = SumExpDims,
                            .fallback = FallbackSumExp,
                            .samples = SamplesSumExp};
  t[size_t(Op::kCrossEntropy)] = {.op = Op::kCrossEntropy,
                                  .infer = Infer,
                                  .grad = Grad,
                                  .dims = ForwardDims,
                                  .fallback = Fallback,
                                  .samples = Samples,
                                  .integers = Targets};
  t[size_t(Op::kCrossEntropyGrad)] = {.op = Op::kCrossEntropyGrad,
                                      .infer = InferGrad,
                                      .dims = GradDims,
                                      .fallback = FallbackGrad,
                                      .samples = Samples,
                                      .integers = Targets};
  t[size_t(Op::kLinearCrossEntropy)] = {.op = Op::kLinearCrossEntropy,
                                        .infer = InferLinear,
                                        .dims = LinearForwardDims,
                                        .fallback = LinearFallback,
                                        .samples = LinearSamples,
                                        .products = 1,
                                        .integers = LinearTargets};
  t[size_t(Op::kLinearCrossEntropyGrad)] = {.op = Op::kLinearCrossEntropyGrad,
                                            .infer = InferLinearGrad,
                                            .dims = LinearGradDims,
                                            .fallback = LinearFallbackGrad,
                                            .samples = LinearSamples,
                                            .products = 3,
                                            .integers = LinearTargets};
}

}  // namespace weft
