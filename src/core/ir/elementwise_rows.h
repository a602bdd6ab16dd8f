// Elementwise ops. One row gives the name, the value and the partial derivatives. The gradient, the sharding rule and
// the kernels are generated from it.
//
// The columns:
// - value: a and b are scalars of the compute type (f32 for bf16 and f16), and k is the node's constant. A NaN in a or
//   b gives NaN, except in Sign and Positive. A hidden NaN would leave the loss finite, and the step would be taken.
// - d/da, d/db: a, b and the result y are Vars. A number is a constant factor, and kNone means no gradient.
// - lin: 1 if the op is linear: it commutes with a sum over ranks, jointly in its operands.
// - int: 1 if the op also takes integers and bools, which it computes in i64, with a whole k. The others take floats.
// - domain: the domain from which test samples are drawn.
#pragma once
// clang-format off

//  Name      text        lin int value                       d/da                                  domain
#define WEFT_UNARY_OPS(X)                                                                                      \
  X(Neg,      "neg",      1,  1,  -a,                         -1.0,                                 kAny)      \
  X(Abs,      "abs",      0,  1,  abs(a),                     Sign(a),                              kNonzero)  \
  X(Sign,     "sign",     0,  1,  SignOf(a),                  kNone,                                kNonzero)  \
  X(Exp,      "exp",      0,  0,  exp(a),                     y,                                    kAny)      \
  X(Log,      "log",      0,  0,  log(a),                     Recip(a),                             kPositive) \
  X(Sqrt,     "sqrt",     0,  0,  sqrt(a),                    Scale(Recip(y), 0.5),                 kPositive) \
  X(Rsqrt,    "rsqrt",    0,  0,  1 / sqrt(a),                Scale(y * y * y, -0.5),               kPositive) \
  X(Recip,    "recip",    0,  0,  1 / a,                      -(y * y),                             kPositive) \
  X(Square,   "square",   0,  1,  a * a,                      Scale(a, 2.0),                        kAny)      \
  X(Tanh,     "tanh",     0,  0,  tanh(a),                    AddScalar(-(y * y), 1.0),             kAny)      \
  X(Sigmoid,  "sigmoid",  0,  0,  1 / (1 + exp(-a)),          y * AddScalar(-y, 1.0),               kAny)      \
  X(Erf,      "erf",      0,  0,  erf(a),                     Scale(Exp(-(a * a)), kTwoOverSqrtPi), kAny)      \
  X(Sin,      "sin",      0,  0,  sin(a),                     Cos(a),                               kAny)      \
  X(Cos,      "cos",      0,  0,  cos(a),                     -Sin(a),                              kAny)      \
  X(Relu,     "relu",     0,  1,  a <= 0 ? decltype(a)(0) : a, Positive(a),                         kNonzero)  \
  X(Positive, "positive", 0,  1,  decltype(a)(a > 0),         kNone,                                kNonzero)  \
  X(Floor,    "floor",    0,  1,  floor(a),                   kNone,                                kFraction) \
  X(Ceil,     "ceil",     0,  1,  ceil(a),                    kNone,                                kFraction) \
  X(Round,    "round",    0,  1,  rint(a),                    kNone,                                kFraction) \
  X(Trunc,    "trunc",    0,  1,  trunc(a),                   kNone,                                kFraction) \
  X(Expm1,    "expm1",    0,  0,  expm1(a),                   AddScalar(y, 1.0),                    kAny)      \
  X(Log1p,    "log1p",    0,  0,  log1p(a),                   Recip(AddScalar(a, 1.0)),             kPositive) \
  X(Gelu,     "gelu",     0,  0,  GeluOf(a),                  GeluD(a),                             kAny)      \
  X(GeluD,    "gelu_d",   0,  0,  GeluDOf(a),                 GeluSecondDerivative(a),              kAny)      \
  X(GeluExact, "gelu_exact", 0, 0, GeluExactOf(a),            GeluExactD(a),                        kAny)      \
  X(GeluExactD, "gelu_exact_d", 0, 0, GeluExactDOf(a),        GeluExactSecondDerivative(a),         kAny)      \
  X(Silu,     "silu",     0,  0,  a / (1 + exp(-a)),          SiluD(a),                             kAny)      \
  X(SiluD,    "silu_d",   0,  0,  SiluDOf(a),                 SiluSecondDerivative(a),              kAny)

// Ops with one constant k.
//  Name       text          lin int value          d/da                             domain
#define WEFT_SCALAR_OPS(X)                                                                      \
  X(Scale,     "scale",      1,  1,  a * k,         k,                               kAny)      \
  X(AddScalar, "add_scalar", 0,  1,  a + k,         1.0,                             kAny)      \
  X(PowScalar, "pow_scalar", 0,  0,  pow(a, k),     PowDerivative(a, k),             kPositive) \
  X(ClampMin,  "clamp_min",  0,  1,  a < k ? k : a, Mask(Gt(a, Like(a, k)), a),      kAny)      \
  X(ClampMax,  "clamp_max",  0,  1,  a > k ? k : a, Mask(Lt(a, Like(a, k)), a),      kAny)

//  Name         text            lin int value                 d/da            d/db                         domain
#define WEFT_BINARY_OPS(X)                                                                                             \
  X(Add,         "add",          1,  1, a + b,                 1.0,            1.0,                         kAny)      \
  X(Sub,         "sub",          1,  1, a - b,                 1.0,            -1.0,                        kAny)      \
  X(Mul,         "mul",          0,  1, a * b,                 b,              a,                           kAny)      \
  X(Div,         "div",          0,  0, a / b,                 Recip(b),       -(y * Recip(b)),             kPositive) \
  X(Maximum,     "maximum",      0,  1, a > b || a != a ? a : b, Mask(a > b, a), Mask(a <= b, a),           kAny)      \
  X(Minimum,     "minimum",      0,  1, a < b || a != a ? a : b, Mask(a < b, a), Mask(a >= b, a),           kAny)      \
  X(Remainder,   "remainder",    0,  1, RemainderOf(a, b),     1.0,            -FloorDivide(a, b),          kPositive) \
  X(FloorDivide, "floor_divide", 0,  1, FloorDivideOf(a, b),   kNone,          kNone,                       kPositive) \
  X(SwiGlu,      "swiglu",       0,  0, a / (1 + exp(-a)) * b, SiluD(a) * b,   Silu(a),                     kAny)      \
  X(GeluGrad,    "gelu_grad",    0,  0, a * GeluDOf(b),        GeluD(b),       a * GeluSecondDerivative(b), kAny)

// Comparisons return bool. And, or and not take bool.
//  Name  text  value
#define WEFT_COMPARE_OPS(X) \
  X(Eq,   "eq", a == b) \
  X(Ne,   "ne", a != b) \
  X(Lt,   "lt", a < b)  \
  X(Le,   "le", a <= b) \
  X(Gt,   "gt", a > b)  \
  X(Ge,   "ge", a >= b)
#define WEFT_LOGIC_OPS(X) X(And, "and", a && b) X(Or, "or", a || b)

#define WEFT_OTHER_ELEMENTWISE_OPS(X) X(Not, "not") X(Select, "select") X(Cast, "cast") X(StopGradient, "stop_gradient")
