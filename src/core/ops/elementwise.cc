// Records and builders of the elementwise ops, generated from the rows of elementwise_rows.h.
#include <fmt/format.h>

#include <cmath>
#include <utility>

#include "weft/core/ir/checks.h"
#include "weft/core/ir/integer_ops.h"
#include "weft/core/ops/ops.h"
#include "weft/core/ops/structural.h"

namespace weft {
namespace {

constexpr double kTwoOverSqrtPi = 1.1283791670955126;
struct NoGradient {};
constexpr NoGradient kNone;

// Returns d(y)/d(operand) times the cotangent. The derivative is a Var, a constant or absent.
Var Times(const Var& dy, const Var& derivative) { return Mul(dy, derivative); }
Var Times(const Var& dy, double derivative) { return derivative == 1.0 ? dy : Scale(dy, derivative); }
Var Times(const Var&, NoGradient) { return {}; }

Var Like(const Var& a, double k) { return Full(k, a.dtype(), {}); }  // a constant that broadcasts
Var Mask(VarAt condition, const Var& like) { return Cast(condition, like.dtype()); }

// x^0 is 1 everywhere, also at 0, where 0 * x^-1 would be NaN.
Var PowDerivative(const Var& a, double k) { return k == 0 ? Like(a, 0) : Scale(PowScalar(a, k - 1.0), k); }

// The second derivative of gelu(x) = x/2 (1 + t), t = tanh(u), u = s (x + c x^3) (Hendrycks, Gimpel 2016, tanh form).
Var GeluSecondDerivative(const Var& a) {
  constexpr double s = 0.7978845608028654, c = 0.044715;
  Var t = Tanh(Scale(a + Scale(a * a * a, c), s));
  Var du = Scale(AddScalar(Scale(a * a, 3 * c), 1.0), s);         // u'
  Var sech2 = AddScalar(-(t * t), 1.0);                           // 1 - t^2
  Var curvature = Scale(a, 6 * c * s) - Scale(t * du * du, 2.0);  // u'' - 2 t u'^2
  return sech2 * (du + Scale(a * curvature, 0.5));
}

// gelu'(x) = Phi(x) + x phi(x), with the normal distribution Phi and its density phi, so gelu'' = phi(x) (2 - x^2).
Var GeluExactSecondDerivative(const Var& a) {
  constexpr double kDensityAt0 = 0.3989422804014327;  // 1 / sqrt(2 pi)
  Var square = a * a;
  return Scale(Exp(Scale(square, -0.5)), kDensityAt0) * AddScalar(-square, 2.0);
}

// silu'(x) = g (1 + x (1 - g)) with g = sigmoid(x), so silu'' = g (1 - g) (2 + x (1 - 2 g)).
Var SiluSecondDerivative(const Var& a) {
  Var g = Sigmoid(a);
  return g * AddScalar(-g, 1.0) * AddScalar(a * AddScalar(Scale(g, -2.0), 1.0), 2.0);
}

template <class Derivative>
void SetGrad(GradCall& call, int operand, const Derivative& derivative) {
  call.dx[size_t(operand)] = Times(call.dy[0], derivative);
}

#define WEFT_GRAD(Name, text, linear, integers, value, da, domain) \
  void Grad##Name(GradCall& call) {                                \
    [[maybe_unused]] const Var &a = call.in(0), y = call.out(0);   \
    SetGrad(call, 0, da);                                          \
  }
WEFT_UNARY_OPS(WEFT_GRAD)
#undef WEFT_GRAD
#define WEFT_GRAD(Name, text, linear, integers, value, da, domain) \
  void Grad##Name(GradCall& call) {                                \
    [[maybe_unused]] const Var &a = call.in(0), y = call.out(0);   \
    [[maybe_unused]] double k = call.node->attrs.Float("k");       \
    SetGrad(call, 0, da);                                          \
  }
WEFT_SCALAR_OPS(WEFT_GRAD)
#undef WEFT_GRAD
#define WEFT_GRAD(Name, text, linear, integers, value, da, db, domain)            \
  void Grad##Name(GradCall& call) {                                               \
    [[maybe_unused]] const Var &a = call.in(0), &b = call.in(1), y = call.out(0); \
    SetGrad(call, 0, da);                                                         \
    SetGrad(call, 1, db);                                                         \
  }
WEFT_BINARY_OPS(WEFT_GRAD)
#undef WEFT_GRAD

void InferSame(Node& node) {
  for (int i = 1; i < int(node.inputs.size()); i++) CheckSame(node, 0, i);
  AddOutput(node, node.inputs[0].dtype(), node.inputs[0].shape());
}
void InferArithmetic(Node& node) {
  InferSame(node);
  const Var& x = node.inputs[0];
  if (!IsFloating(x.dtype()) && !TakesIntegers(node.op))
    FailAt(node, fmt::format("expected floats, got {}; cast the operand to a float", ToString(x)));
}
// Kernels of integers compute in i64, and would cut off a fraction.
void InferScalar(Node& node) {
  InferArithmetic(node);
  const Var& x = node.inputs[0];
  double k = node.attrs.Float("k");
  if (!IsFloating(x.dtype()) && !Holds(DType::kI64, k))
    FailAt(node, fmt::format("expected a whole number within 64 bits for {}, got {}; cast the operand to a float",
                             ToString(x), k));
}
void InferCompare(Node& node) {
  CheckSame(node, 0, 1);
  AddOutput(node, DType::kBool, node.inputs[0].shape());
}
void InferLogic(Node& node) {
  InferSame(node);
  if (node.inputs[0].dtype() != DType::kBool)
    FailAt(node, fmt::format("expected bool operands, got {}; compare them with a number first, as in Ne(x, zero)",
                             ToString(node.inputs[0])));
}
void InferSelect(Node& node) {
  CheckSame(node, 1, 2);
  const Var& condition = node.inputs[0];
  if (condition.dtype() != DType::kBool || condition.shape() != node.inputs[1].shape())
    FailAt(node, fmt::format("expected a condition of bool {}, got {}; compare numbers to get a condition, and give it "
                             "dims that broadcast",
                             ToString(node.inputs[1].shape()), ToString(condition)));
  AddOutput(node, node.inputs[1].dtype(), node.inputs[1].shape());
}
void InferCast(Node& node) { AddOutput(node, DType(node.attrs.Int("dtype")), node.inputs[0].shape()); }

Dims PointwiseDims(const Node& node) {
  Dims dims;
  std::string labels = Letters(node.inputs[0].rank());
  dims.in.assign(node.inputs.size(), labels);
  dims.out.push_back(labels);
  return dims;
}
Dims LinearDims(const Node& node) {
  Dims dims = PointwiseDims(node);
  if (IsFloating(node.outputs[0].dtype) && IsFloating(node.inputs[0].dtype())) dims.linear = Linear::kJoint;
  return dims;
}

void GradSelect(GradCall& call) {
  Var zero = Full(0, call.dy[0].dtype(), call.dy[0].shape());
  call.dx[1] = Select(call.in(0), call.dy[0], zero);
  call.dx[2] = Select(call.in(0), zero, call.dy[0]);
}
void GradCast(GradCall& call) {
  if (!IsFloating(call.in(0).dtype()) || !IsFloating(call.dy[0].dtype())) return;
  if (call.parameter_sums && call.node->parameter_chain) {
    call.dx[0] = call.dy[0];
    return;
  }
  // Here a parameter's gradient is still a sum over ranks. It is reduced after this cast, in the wider type.
  Attrs attrs{{"dtype", int(call.in(0).dtype())}, {"parameter_gradient", call.node->parameter_chain}};
  call.dx[0] = EmitOne(Op::kCast, attrs, {call.dy[0]}, call.node->loc);
}
void NoGrad(GradCall&) {}

// Two shapes: 2, 3 and 4 ranks shard the first unevenly, down to empty chunks, and the second evenly.
std::vector<Sample> Same(int inputs, Domain domain, const Attrs& attrs = {}) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{5, 3}, Shape{12}})
    samples.push_back({std::vector<SampleInput>(size_t(inputs), {shape, domain}), attrs});
  return samples;
}

#define WEFT_SAMPLES(Name, text, linear, integers, value, da, domain) \
  std::vector<Sample> Samples##Name(Op) { return Same(1, Domain::domain); }
WEFT_UNARY_OPS(WEFT_SAMPLES)
#undef WEFT_SAMPLES
#define WEFT_SAMPLES(Name, text, linear, integers, value, da, domain) \
  std::vector<Sample> Samples##Name(Op) { return Same(1, Domain::domain, {{"k", 1.7}}); }
WEFT_SCALAR_OPS(WEFT_SAMPLES)
#undef WEFT_SAMPLES
#define WEFT_SAMPLES(Name, text, linear, integers, value, da, db, domain) \
  std::vector<Sample> Samples##Name(Op) { return Same(2, Domain::domain); }
WEFT_BINARY_OPS(WEFT_SAMPLES)
#undef WEFT_SAMPLES
std::vector<Sample> SamplesCompare(Op) { return Same(2, Domain::kAny); }
std::vector<Sample> SamplesLogic(Op) { return Same(2, Domain::kBool); }
std::vector<Sample> SamplesNot(Op) { return Same(1, Domain::kBool); }
std::vector<Sample> SamplesCast(Op) {
  auto samples = Same(1, Domain::kAny, {{"dtype", int(DType::kF32)}});
  auto ints = Same(1, Domain::kAny, {{"dtype", int(DType::kI64)}});
  samples.insert(samples.end(), ints.begin(), ints.end());
  return samples;
}
std::vector<Sample> SamplesAny(Op) { return Same(1, Domain::kAny); }
std::vector<Sample> SamplesSelect(Op) {
  std::vector<Sample> samples;
  for (const Shape& shape : {Shape{5, 3}, Shape{4}}) samples.push_back({{{shape, Domain::kBool}, {shape}, {shape}}});
  return samples;
}

void GradGeluFused(GradCall& call) { call.dx[0] = GeluGrad({call.dy[0], call.node->loc}, call.in(0)); }
void GradSwiGluFused(GradCall& call) {
  Outputs d = Emit(Op::kSwiGluGrad, {}, {call.in(0), call.in(1), call.dy[0]}, call.node->loc);
  call.dx = {d[0], d[1]};
}

Outputs FallbackSwiGlu(const Node& node) { return {Mul(Silu(node.inputs[0]), node.inputs[1])}; }

// Broadcasts operands to the shape that they have in common. If there is none, the op refuses them.
void Align(std::initializer_list<Var*> operands, const Loc& loc) {
  for (Var* x : operands)
    if (!x->defined()) return;
  std::optional<Shape> common = (*operands.begin())->shape();
  for (Var* x : operands)
    if (common) common = BroadcastShape(*common, x->shape());
  if (!common) return;
  for (Var* x : operands)
    if (x->shape() != *common) *x = BroadcastTo(*x, *common, loc);
}
Var Binary(Op op, const VarAt& x, const VarAt& y) {
  Var a = x.var, b = y.var;
  Align({&a, &b}, x.loc);
  return EmitOne(op, {}, {a, b}, x.loc);
}

}  // namespace

#define WEFT_BUILDER(Name, ...) \
  Var Name(VarAt a) { return EmitOne(Op::k##Name, {}, {a.var}, a.loc); }
WEFT_UNARY_OPS(WEFT_BUILDER)
#undef WEFT_BUILDER
#define WEFT_BUILDER(Name, ...) \
  Var Name(VarAt a, double k) { return EmitOne(Op::k##Name, {{"k", k}}, {a.var}, a.loc); }
WEFT_SCALAR_OPS(WEFT_BUILDER)
#undef WEFT_BUILDER
#define WEFT_BUILDER(Name, ...) \
  Var Name(VarAt a, VarAt b) { return Binary(Op::k##Name, a, b); }
WEFT_BINARY_OPS(WEFT_BUILDER)
WEFT_COMPARE_OPS(WEFT_BUILDER)
WEFT_LOGIC_OPS(WEFT_BUILDER)
#undef WEFT_BUILDER

Var Not(VarAt a) { return EmitOne(Op::kNot, {}, {a.var}, a.loc); }
Var Select(VarAt condition, VarAt a, VarAt b) {
  Align({&condition.var, &a.var, &b.var}, condition.loc);
  return EmitOne(Op::kSelect, {}, {condition.var, a.var, b.var}, condition.loc);
}
Var operator/(VarAt a, double k) {
  CheckAssigned(a.var, "div", a.loc);
  VarAt divisor{Full(k, a.var.dtype(), {}, a.loc), a.loc};
  return Div(std::move(a), std::move(divisor));
}
Var operator/(double k, VarAt a) {
  CheckAssigned(a.var, "div", a.loc);
  VarAt dividend{Full(k, a.var.dtype(), {}, a.loc), a.loc};
  return Div(std::move(dividend), std::move(a));
}

Var Cast(VarAt a, DType dtype) {
  CheckAssigned(a.var, "cast", a.loc);
  return a.var.dtype() == dtype ? a.var : EmitOne(Op::kCast, {{"dtype", int(dtype)}}, {a.var}, a.loc);
}
Var StopGradient(VarAt a) { return EmitOne(Op::kStopGradient, {}, {a.var}, a.loc); }

void RegisterElementwise(OpTable& t) {
  auto add = [&](OpRecord record) {
    record.by_rows = true;
    t[size_t(record.op)] = record;
  };
#define WEFT_RECORD(Name, text, linear, ...)        \
  add({.op = Op::k##Name,                           \
       .infer = InferArithmetic,                    \
       .grad = Grad##Name,                          \
       .dims = linear ? LinearDims : PointwiseDims, \
       .samples = Samples##Name});
  WEFT_UNARY_OPS(WEFT_RECORD)
  WEFT_SCALAR_OPS(WEFT_RECORD)
  WEFT_BINARY_OPS(WEFT_RECORD);
#undef WEFT_RECORD
#define WEFT_INFER(Name, ...) t[size_t(Op::k##Name)].infer = InferScalar;
  WEFT_SCALAR_OPS(WEFT_INFER)
#undef WEFT_INFER
  t[size_t(Op::kSwiGlu)].fallback = FallbackSwiGlu;
  // These gradients take one pass. The generic rule would multiply by a derivative op and take two.
  t[size_t(Op::kSwiGlu)].grad = GradSwiGluFused;
  t[size_t(Op::kGelu)].grad = GradGeluFused;
  t[size_t(Op::kGeluGrad)].with_product = Op::kLinearGeluGrad;
  t[size_t(Op::kGeluGrad)].dy = 0;
#define WEFT_RECORD(Name, ...) \
  add({.op = Op::k##Name, .infer = InferCompare, .grad = NoGrad, .dims = PointwiseDims, .samples = SamplesCompare});
  WEFT_COMPARE_OPS(WEFT_RECORD)
#undef WEFT_RECORD
#define WEFT_RECORD(Name, ...) \
  add({.op = Op::k##Name, .infer = InferLogic, .grad = NoGrad, .dims = PointwiseDims, .samples = SamplesLogic});
  WEFT_LOGIC_OPS(WEFT_RECORD)
#undef WEFT_RECORD
  add({.op = Op::kNot, .infer = InferLogic, .grad = NoGrad, .dims = PointwiseDims, .samples = SamplesNot});
  add({.op = Op::kSelect, .infer = InferSelect, .grad = GradSelect, .dims = PointwiseDims, .samples = SamplesSelect});
  add({.op = Op::kCast, .infer = InferCast, .grad = GradCast, .dims = LinearDims, .samples = SamplesCast});
  add({.op = Op::kStopGradient,
       .infer = InferSame,
       .grad = NoGrad,
       .dims = LinearDims,
       .samples = SamplesAny,
       .alias = true});
}

}  // namespace weft
