// Fused ops: a device computes each in one pass, where other ops would take several. Each is equal to its
// composition, which runs on a device without a kernel for it.
//
// Linear      (x, w, then the bias and the residual if their attributes are 1); eq, bias, residual, wide, kind
//             -> kind(einsum(eq, x, w) + bias) + residual
//             `kind` is gelu, gelu_exact, silu or relu, or is missing, and then nothing is applied.
//             The bias has the trailing dims of the result, the residual has the result's shape and dtype. Sums in the
//             accumulate type. That is also the result's type if wide is 1. Made by Fuse (core/passes/fuse.h) from
//             einsum, add and cast.
// SwiGluGrad  (a, b, dy) -> da, db, the gradients of swiglu(a, b) = silu(a) * b.
// LinearSwiGluGrad (x, w, a, b); eq -> da, db, these gradients for dy = einsum(eq, x, w) of a's dtype. Made by Fuse.
// LinearGeluGrad (x, w, a); eq -> da, the gradient of gelu(a) for such a dy. Made by Fuse.
#include <fmt/format.h>
#include <fmt/ranges.h>

#include "weft/core/ops/equation.h"
#include "weft/core/ops/linear_activations.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

struct LinearParts : Equation {
  int bias = -1, residual = -1;  // operand numbers; -1: none
  explicit LinearParts(const Node& node) : Equation(node.attrs.Text("eq")) {
    int next = 2;
    if (node.attrs.Int("bias")) bias = next++;
    if (node.attrs.Int("residual")) residual = next++;
  }
};

using Activation = Var (*)(VarAt);
// Returns the function that `kind` names; null if there is no such attribute.
Activation ActivationOf(const Node& node) {
#define WEFT_FUNCTION(Name) {Op::k##Name, &Name},
  static constexpr std::pair<Op, Activation> kActivations[] = {WEFT_LINEAR_ACTIVATIONS(WEFT_FUNCTION)};
#undef WEFT_FUNCTION
  std::vector<std::string> names;
  for (const Attrs::Item& item : node.attrs.items()) {
    if (item.name != "kind") continue;
    for (const auto& [op, function] : kActivations) {
      if (std::get<std::string>(item.value) == Name(op)) return function;
      names.emplace_back(Name(op));
    }
    FailAt(node, fmt::format("expected one of {}, got {}", fmt::join(names, ", "), std::get<std::string>(item.value)));
  }
  return nullptr;
}

int64_t ExtentOf(const Node& node, const Equation& p, char label) {
  size_t i = p.a.find(label);
  return i != std::string::npos ? node.inputs[0].shape()[i] : node.inputs[1].shape()[p.b.find(label)];
}

DType ResultType(const Node& node) {
  DType dtype = node.inputs[0].dtype();
  return node.attrs.Int("wide") ? AccumulateType(dtype) : dtype;
}

void InferLinear(Node& node) {
  LinearParts p(node);
  size_t operands = 2 + size_t(p.bias >= 0) + size_t(p.residual >= 0);
  if (node.inputs.size() != operands)
    FailAt(node, fmt::format("expected {} operands, got {}", operands, node.inputs.size()));
  Shape shape;
  for (char label : p.out) shape.push_back(ExtentOf(node, p, label));
  DType dtype = ResultType(node);
  if (p.bias >= 0) {
    const Shape& bias = node.inputs[size_t(p.bias)].shape();
    if (bias.size() > shape.size() || !std::equal(bias.rbegin(), bias.rend(), shape.rbegin()))
      FailAt(node, fmt::format("expected a bias of the trailing dims of {}, got {}", ToString(shape), ToString(bias)));
  }
  if (p.residual >= 0) {
    const Var& r = node.inputs[size_t(p.residual)];
    if (r.shape() != shape || r.dtype() != dtype)
      FailAt(node, fmt::format("expected a residual of {} {}, got {} {}", Name(dtype), ToString(shape), Name(r.dtype()),
                               ToString(r.shape())));
  }
  ActivationOf(node);  // throws if there is no such function
  AddOutput(node, dtype, std::move(shape));
}

Dims LinearDims(const Node& node) {
  LinearParts p(node);
  Dims dims{.in = {p.a, p.b}, .out = {p.out}};
  if (p.bias >= 0) dims.in.push_back(p.out.substr(p.out.size() - node.inputs[size_t(p.bias)].shape().size()));
  if (p.residual >= 0) dims.in.push_back(p.out);
  // With a sharded contraction every rank would add the bias or residual, or apply a function to a part of the sum. So
  // contracted labels must not be sharded.
  if (p.bias >= 0 || p.residual >= 0 || ActivationOf(node))
    for (char label : p.a)
      if (p.out.find(label) == std::string::npos) dims.whole += label;
  return dims;
}

Outputs LinearFallback(const Node& node) {
  LinearParts p(node);
  DType dtype = ResultType(node);
  Var y = Einsum(node.attrs.Text("eq"), node.inputs[0], node.inputs[1]);
  if (p.bias >= 0) y = y + BroadcastTo(node.inputs[size_t(p.bias)], y.shape());
  y = Cast(y, dtype);
  if (Activation function = ActivationOf(node)) y = function({y, node.loc});
  if (p.residual >= 0) y = y + node.inputs[size_t(p.residual)];
  return {y};
}

std::vector<Sample> LinearSamples(Op) {
  auto attrs = [](const char* eq, int bias, int residual, int wide) {
    return Attrs{{"eq", eq}, {"bias", bias}, {"residual", residual}, {"wide", wide}};
  };
  auto with = [](Attrs own, const char* kind) {
    own.Set({"kind", kind});
    return own;
  };
  return {{{{{4, 3, 6}}, {{6, 5}}}, attrs("btc,cn->btn", 0, 0, 1)},
          {{{{4, 3, 6}}, {{6, 5}}}, with(attrs("btc,cn->btn", 0, 0, 0), "silu")},
          {{{{4, 3, 6}}, {{6, 5}}, {{5}}}, with(attrs("btc,cn->btn", 1, 0, 0), "gelu")},
          {{{{2, 70}}, {{70, 260}}, {{260}}, {{2, 260}}}, with(attrs("bc,cn->bn", 1, 1, 0), "gelu_exact")},
          {{{{5, 6}}, {{6, 4, 3}}, {{4, 3}}}, attrs("bc,chd->bhd", 1, 0, 0)},
          {{{{4, 3, 6}}, {{6, 5}}, {{5}}, {{4, 3, 5}}}, attrs("btc,cn->btn", 1, 1, 0)},
          {{{{4, 3, 6}}, {{4, 3, 5}}, {{6, 5}}}, attrs("btc,btn->cn", 0, 1, 0)}};
}

void InferSwiGluGrad(Node& node) {
  CheckSame(node, 0, 1);
  CheckSame(node, 0, 2);
  for (int i = 0; i < 2; i++) AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}
Dims SwiGluGradDims(const Node& node) {
  std::string all = Letters(node.inputs[0].rank());
  return {.in = {all, all, all}, .out = {all, all}};
}
Outputs SwiGluGradFallback(const Node& node) {
  const Var &a = node.inputs[0], &b = node.inputs[1], &dy = node.inputs[2];
  return {dy * (SiluD(a) * b), dy * Silu(a)};
}
std::vector<Sample> SwiGluGradSamples(Op) {
  std::vector<Sample> samples;
  for (const Shape& s : {Shape{5, 3}, Shape{2, 3, 4}}) samples.push_back({{{s}, {s}, {s}}});
  return samples;
}

// The operands of an activation follow those of the product, and there is a gradient for each of them.
void InferLinearGrads(Node& node) {
  Equation p(node.attrs.Text("eq"));
  Shape shape;
  for (char label : p.out) shape.push_back(ExtentOf(node, p, label));
  for (const Var& a : std::span(node.inputs).subspan(2)) {
    if (a.shape() != shape || a.dtype() != node.inputs[0].dtype())
      FailAt(node, fmt::format("expected operands of the activation of {} {}, got {} {}", Name(node.inputs[0].dtype()),
                               ToString(shape), Name(a.dtype()), ToString(a.shape())));
    AddOutput(node, a.dtype(), shape);
  }
}
// A sharded contraction would give each rank the gradients of a part of dy.
Dims LinearGradDims(const Node& node) {
  Equation p(node.attrs.Text("eq"));
  Dims dims{.in = {p.a, p.b}};
  for (size_t i = 2; i < node.inputs.size(); i++) dims.in.push_back(p.out), dims.out.push_back(p.out);
  for (char label : p.a)
    if (p.out.find(label) == std::string::npos) dims.whole += label;
  return dims;
}
Outputs LinearSwiGluGradFallback(const Node& node) {
  Var dy = Einsum(node.attrs.Text("eq"), node.inputs[0], node.inputs[1]);
  return Emit(Op::kSwiGluGrad, {}, {node.inputs[2], node.inputs[3], dy}, node.loc);
}
std::vector<Sample> LinearSwiGluGradSamples(Op) {
  return {{{{{4, 3, 6}}, {{5, 6}}, {{4, 3, 5}}, {{4, 3, 5}}}, {{"eq", "btc,nc->btn"}}},
          {{{{7, 6}}, {{6, 5}}, {{7, 5}}, {{7, 5}}}, {{"eq", "bc,cn->bn"}}}};
}
Outputs LinearGeluGradFallback(const Node& node) {
  Var dy = Einsum(node.attrs.Text("eq"), node.inputs[0], node.inputs[1]);
  return {GeluGrad({dy, node.loc}, node.inputs[2])};
}
std::vector<Sample> LinearGeluGradSamples(Op) {
  return {{{{{4, 3, 6}}, {{5, 6}}, {{4, 3, 5}}}, {{"eq", "btc,nc->btn"}}},
          {{{{7, 6}}, {{6, 5}}, {{7, 5}}}, {{"eq", "bc,cn->bn"}}}};
}

}  // namespace

void RegisterFused(OpTable& t) {
  t[size_t(Op::kLinear)] = {.op = Op::kLinear,
                            .infer = InferLinear,
                            .dims = LinearDims,
                            .fallback = LinearFallback,
                            .samples = LinearSamples,
                            .products = 1,
                            .accumulates = true,
                            .early_operands = true};
  t[size_t(Op::kSwiGluGrad)] = {.op = Op::kSwiGluGrad,
                                .infer = InferSwiGluGrad,
                                .dims = SwiGluGradDims,
                                .fallback = SwiGluGradFallback,
                                .samples = SwiGluGradSamples,
                                .with_product = Op::kLinearSwiGluGrad,
                                .dy = 2};
  t[size_t(Op::kLinearSwiGluGrad)] = {.op = Op::kLinearSwiGluGrad,
                                      .infer = InferLinearGrads,
                                      .dims = LinearGradDims,
                                      .fallback = LinearSwiGluGradFallback,
                                      .samples = LinearSwiGluGradSamples,
                                      .products = 1};
  t[size_t(Op::kLinearGeluGrad)] = {.op = Op::kLinearGeluGrad,
                                    .infer = InferLinearGrads,
                                    .dims = LinearGradDims,
                                    .fallback = LinearGeluGradFallback,
                                    .samples = LinearGeluGradSamples,
                                    .products = 1};
#define WEFT_BY_ROWS(Name, ...) t[size_t(Op::k##Name)].by_rows = true;
  WEFT_FUSED_OPS(WEFT_BY_ROWS)
#undef WEFT_BY_ROWS
}

}  // namespace weft
