// Every elementwise op agrees with its expression in f64, over shapes, paddings, broadcasts and dtypes.
#include <numbers>

#include "harness.h"
#include "weft/kernels/cpu/loops/scalar_math.h"

namespace weft::test {
namespace {

// The helper functions that expressions in the list of ops use, in f64.
double SignOf(double a) { return (a > 0) - (a < 0); }
double Inner(double a) { return std::sqrt(2 / std::numbers::pi) * (a + 0.044715 * a * a * a); }
double GeluOf(double a) { return 0.5 * a * (1 + std::tanh(Inner(a))); }
double GeluDOf(double a) {
  double t = std::tanh(Inner(a)), du = std::sqrt(2 / std::numbers::pi) * (1 + 3 * 0.044715 * a * a);
  return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * du;
}
double GeluExactOf(double a) { return a * std::erfc(-a / std::numbers::sqrt2) / 2; }
double GeluExactDOf(double a) {
  return std::erfc(-a / std::numbers::sqrt2) / 2 + a * std::exp(-a * a / 2) / std::sqrt(2 * std::numbers::pi);
}
double SiluDOf(double a) {
  double s = 1 / (1 + std::exp(-a));
  return s * (1 + a * (1 - s));
}
// Python's remainder and floor division. An integer divided by 0 gives 0.
double RemainderOf(double a, double b) {
  double rest = b == 0 ? 0 : std::fmod(a, b);
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}
double FloorDivideOf(double a, double b) { return b == 0 ? 0 : std::floor(a / b); }
using std::abs, std::exp, std::log, std::sqrt, std::tanh, std::erf, std::sin, std::cos, std::floor, std::pow;
using std::ceil, std::rint, std::trunc, std::expm1, std::log1p;

using Reference = double (*)(double a, double b, double k);
enum Domain { kAny, kNonzero, kPositive, kFraction };
struct Case {
  Op op;
  Reference value;
  Domain domain;
};
#define WEFT_CASE1(Name, text, linear, integers, value, da, domain) \
  {Op::k##Name,                                                     \
   [](double a, double, double k) -> double {                       \
     (void)k;                                                       \
     return value;                                                  \
   },                                                               \
   domain},
#define WEFT_CASE2(Name, text, linear, integers, value, da, db, domain) \
  {Op::k##Name, [](double a, double b, double) -> double { return value; }, domain},
#define WEFT_CASE3(Name, text, value) {Op::k##Name, [](double a, double b, double) -> double { return value; }, kAny},
const std::vector<Case> kUnary{WEFT_UNARY_OPS(WEFT_CASE1)}, kScalar{WEFT_SCALAR_OPS(WEFT_CASE1)},
    kBinary{WEFT_BINARY_OPS(WEFT_CASE2)}, kCompare{WEFT_COMPARE_OPS(WEFT_CASE3)}, kLogic{WEFT_LOGIC_OPS(WEFT_CASE3)};

Box Sample(Rng& rng, DType dtype, const Shape& shape, Domain domain) {
  return RandomBox(rng, dtype, shape, domain == kPositive ? 0.3 : -3, 3);
}

// Makes some dims of an input broadcasts (stride 0).
void Restride(Rng& rng, Box& box) {
  for (int d = 0; d < box.view.rank; d++)
    if (Pick(rng, 0, 3) == 0 && box.view.dim(d).extent > 0) box.view.dims[size_t(d)].stride = 0;
}

// The operands and the result of one run of a kernel.
struct Ran {
  Box a, b, y;
};
// `spoil` changes the drawn operands.
Ran RunCase(Rng& rng, const Case& c, DType dtype, const Shape& shape, int operands, double k, DType result,
            void (*spoil)(Rng& rng, Box& box) = nullptr) {
  Ran ran{Sample(rng, dtype, shape, c.domain), Sample(rng, dtype, shape, c.domain), PaddedBox(rng, result, shape)};
  for (Box* box : {&ran.a, &ran.b}) {
    if (spoil) spoil(rng, *box);
    Restride(rng, *box);
  }
  std::vector<const Box*> in{&ran.a};
  if (operands == 2) in.push_back(&ran.b);
  Attrs attrs;
  if (k != 0) attrs.Set({"k", k});
  RunKernel(c.op, attrs, in, {&ran.y});
  return ran;
}

void Check(Rng& rng, const Case& c, DType dtype, const Shape& shape, int operands, double k, DType result) {
  auto [a, b, y] = RunCase(rng, c, dtype, shape, operands, k, result);
  Values want;
  for (int64_t i = 0; i < y.count(); i++) want.push_back(c.value(a.Get(i), b.Get(i), k));
  SCOPED_TRACE(Name(c.op));
  // The worst case is GeluD near its zeros, with a dozen roundings of values near 1.
  ExpectClose(y, want, Tolerance(dtype, 8), IsFloating(dtype) ? 1 : 0);
}

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> list = [] {
    Rng rng(1);
    std::vector<Shape> shapes{{}, {0}, {1}, {3001}, {4, 700}, {3, 1, 5}};
    for (int i = 0; i < 12; i++) shapes.push_back(RandomShape(rng, int(Pick(rng, 1, 4))));
    return shapes;
  }();
  return list;
}

TEST(Elementwise, FloatsFollowTheirExpression) {
  Rng rng(2);
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes()) {
      for (const Case& c : kUnary) Check(rng, c, dtype, shape, 1, 0, dtype);
      for (const Case& c : kScalar) Check(rng, c, dtype, shape, 1, 1.75, dtype);
      for (const Case& c : kBinary) Check(rng, c, dtype, shape, 2, 0, dtype);
      for (const Case& c : kCompare) Check(rng, c, dtype, shape, 2, 0, DType::kBool);
    }
}

TEST(Elementwise, IntegersAreExact) {
  Rng rng(3);
  auto exact = [](Op op) {
    for (Op o : {Op::kNeg,   Op::kAbs,   Op::kSign,  Op::kSquare,   Op::kRelu,     Op::kPositive,  Op::kAddScalar,
                 Op::kScale, Op::kAdd,   Op::kSub,   Op::kMul,      Op::kMaximum,  Op::kMinimum,   Op::kFloor,
                 Op::kCeil,  Op::kRound, Op::kTrunc, Op::kClampMin, Op::kClampMax, Op::kRemainder, Op::kFloorDivide})
      if (o == op) return true;
    return false;
  };
  for (DType dtype : {DType::kI64, DType::kI32})
    for (const Shape& shape : Shapes()) {
      for (const Case& c : kUnary)
        if (exact(c.op)) Check(rng, c, dtype, shape, 1, 0, dtype);
      for (const Case& c : kScalar)
        if (exact(c.op)) Check(rng, c, dtype, shape, 1, 3, dtype);
      for (const Case& c : kBinary)
        if (exact(c.op)) Check(rng, c, dtype, shape, 2, 0, dtype);
      for (const Case& c : kCompare) Check(rng, c, dtype, shape, 2, 0, DType::kBool);
    }
  Box big(DType::kI64, {1}), one(DType::kI64, {1}), sum(DType::kI64, {1});
  big.view.as<int64_t>()[0] = (int64_t(1) << 62) + 1;
  one.Set(0, 1);
  RunKernel(Op::kAdd, {}, {&big, &one}, {&sum});
  EXPECT_EQ(sum.view.as<int64_t>()[0], (int64_t(1) << 62) + 2);
  RunKernel(Op::kFloor, {}, {&big}, {&sum});
  EXPECT_EQ(sum.view.as<int64_t>()[0], big.view.as<int64_t>()[0]) << "no way through a float";
}

// Signs of both operands, as Python's % and // have them. Zero and -1 divide integers too.
TEST(Elementwise, RemainderAndFloorDivideHavePythonsSigns) {
  for (DType dtype : {DType::kI64, DType::kI32, DType::kF64, DType::kF32, DType::kBF16}) {
    Box a(dtype, {17, 17}), b(dtype, {17, 17}), rest(dtype, {17, 17}), quotient(dtype, {17, 17});
    for (int64_t i = 0; i < a.count(); i++) {
      a.Set(i, double(i / 17 - 8));
      b.Set(i, double(i % 17 - 8));
    }
    RunKernel(Op::kRemainder, {}, {&a, &b}, {&rest});
    RunKernel(Op::kFloorDivide, {}, {&a, &b}, {&quotient});
    for (int64_t i = 0; i < a.count(); i++) {
      if (b.Get(i) == 0 && IsFloating(dtype)) {
        EXPECT_TRUE(std::isnan(rest.Get(i)) && !std::isfinite(quotient.Get(i)));
        continue;
      }
      EXPECT_EQ(rest.Get(i), RemainderOf(a.Get(i), b.Get(i))) << a.Get(i) << " and " << b.Get(i);
      EXPECT_EQ(quotient.Get(i), FloorDivideOf(a.Get(i), b.Get(i))) << a.Get(i) << " and " << b.Get(i);
    }
  }
  Box low(DType::kI64, {1}), minus(DType::kI64, {1}), y(DType::kI64, {1});
  low.view.as<int64_t>()[0] = INT64_MIN;
  minus.Set(0, -1);
  RunKernel(Op::kFloorDivide, {}, {&low, &minus}, {&y});
  EXPECT_EQ(y.view.as<int64_t>()[0], INT64_MIN) << "it wraps around";
  RunKernel(Op::kRemainder, {}, {&low, &minus}, {&y});
  EXPECT_EQ(y.view.as<int64_t>()[0], 0);
}

TEST(Elementwise, RoundGoesToEven) {
  Box x(DType::kF32, {4}), y(DType::kF32, {4});
  x.SetAll({-2.5, -0.5, 0.5, 1.5});
  RunKernel(Op::kRound, {}, {&x}, {&y});
  ExpectClose(y, {-2, 0, 0, 2}, 0);
}

// Sets about a quarter of the elements to NaN of either sign.
void Spoil(Rng& rng, Box& box) {
  for (int64_t i = 0; i < box.count(); i++)
    if (Pick(rng, 0, 3) == 0) box.Set(i, Pick(rng, 0, 1) ? NAN : -NAN);
}

// If an op hides a NaN, the loss and the norm of the gradients stay finite, and nothing refuses the step. Sign and
// Positive compare, and as in PyTorch a comparison with NaN is false.
TEST(Elementwise, NaNOfEitherOperandReachesTheResult) {
  Rng rng(8);
  auto check = [&](const Case& c, DType dtype, const Shape& shape, int operands, double k) {
    if (c.op == Op::kSign || c.op == Op::kPositive) return;
    auto [a, b, y] = RunCase(rng, c, dtype, shape, operands, k, dtype, Spoil);
    for (int64_t i = 0; i < y.count(); i++) {
      bool spoilt = std::isnan(a.Get(i)) || (operands == 2 && std::isnan(b.Get(i)));
      ASSERT_EQ(std::isnan(y.Get(i)), spoilt)
          << Name(c.op) << " " << Name(dtype) << " of " << a.Get(i) << " and " << b.Get(i) << " gave " << y.Get(i);
      ASSERT_EQ(std::isnan(c.value(a.Get(i), b.Get(i), k)), spoilt) << Name(c.op) << ": its row";
    }
  };
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes()) {
      for (const Case& c : kUnary) check(c, dtype, shape, 1, 0);
      for (const Case& c : kScalar) check(c, dtype, shape, 1, 1.75);
      for (const Case& c : kBinary) check(c, dtype, shape, 2, 0);
    }
}

TEST(Elementwise, LogicAndNot) {
  Rng rng(4);
  for (const Shape& shape : Shapes()) {
    for (const Case& c : kLogic) {
      Box a = RandomBox(rng, DType::kBool, shape, 0, 1.99), b = RandomBox(rng, DType::kBool, shape, 0, 1.99);
      Box y = PaddedBox(rng, DType::kBool, shape);
      RunKernel(c.op, {}, {&a, &b}, {&y});
      for (int64_t i = 0; i < y.count(); i++) ASSERT_EQ(y.Get(i), c.value(a.Get(i), b.Get(i), 0));
    }
    Box a = RandomBox(rng, DType::kBool, shape, 0, 1.99), y = PaddedBox(rng, DType::kBool, shape);
    RunKernel(Op::kNot, {}, {&a}, {&y});
    for (int64_t i = 0; i < y.count(); i++) ASSERT_EQ(y.Get(i), !a.Get(i));
  }
}

TEST(Elementwise, SelectPicksBitsOfAnyType) {
  Rng rng(5);
  for (DType dtype : AllTypes())
    for (const Shape& shape : Shapes()) {
      Box c = RandomBox(rng, DType::kBool, shape, 0, 1.99), a = RandomBox(rng, dtype, shape, 0, 9),
          b = RandomBox(rng, dtype, shape, 0, 9);
      Restride(rng, c);
      Restride(rng, a);
      Restride(rng, b);
      Box y = PaddedBox(rng, dtype, shape);
      RunKernel(Op::kSelect, {}, {&c, &a, &b}, {&y});
      for (int64_t i = 0; i < y.count(); i++) ASSERT_EQ(y.Get(i), c.Get(i) ? a.Get(i) : b.Get(i));
    }
}

TEST(Elementwise, CastRoundsAsTensorsDo) {
  Rng rng(6);
  for (DType from : AllTypes())
    for (DType to : AllTypes())
      for (const Shape& shape : Shapes()) {
        Box x = RandomBox(rng, from, shape, IsFloating(from) && IsFloating(to) ? -300 : 0, 200),
            y = PaddedBox(rng, to, shape);
        Restride(rng, x);
        RunKernel(Op::kCast, {}, {&x}, {&y});
        Box want(to, shape);
        want.SetAll(x.All());
        for (int64_t i = 0; i < y.count(); i++) ASSERT_EQ(y.Get(i), want.Get(i)) << Name(from) << " to " << Name(to);
      }
}

TEST(Elementwise, InPlaceGivesTheSame) {
  Rng rng(7);
  Box x = RandomBox(rng, DType::kF32, {37, 50}, 0.1, 3), y = x, out = x;
  for (const Case& c : kUnary) {
    y = out = x;
    RunKernel(c.op, {}, {&x}, {&out});
    RunKernel(c.op, {}, {&y}, {&y});
    ASSERT_EQ(out.All(), y.All()) << Name(c.op);
  }
}

// Returns the distance from `want` in units of the last place of the f32 nearest to it.
double Ulps(float got, double want) {
  float nearest = float(want), next = std::nextafterf(std::fabs(nearest), INFINITY);
  return std::fabs(double(got) - want) / (double(next) - std::fabs(double(nearest)));
}

TEST(ScalarMath, ExpAndTanhAreWithinTwoUlp) {
  double worst_exp = 0, worst_tanh = 0;
  for (int i = 0; i < 400000; i++) {
    float x = -104.0f + float(i) * (192.7f / 400000), t = -10.0f + float(i) * (20.0f / 400000);
    worst_exp = std::max(worst_exp, Ulps(cpu::exp(x), std::exp(double(x))));
    worst_tanh = std::max(worst_tanh, Ulps(cpu::tanh(t), std::tanh(double(t))));
  }
  EXPECT_LE(worst_exp, 2);
  EXPECT_LE(worst_tanh, 2);
  std::printf("worst error: exp %.2f ulp, tanh %.2f ulp\n", worst_exp, worst_tanh);
  const float inf = INFINITY;
  EXPECT_EQ(cpu::exp(inf), inf);
  EXPECT_EQ(cpu::exp(100.0f), inf);
  EXPECT_EQ(cpu::exp(-inf), 0.0f);
  EXPECT_EQ(cpu::exp(0.0f), 1.0f);
  EXPECT_TRUE(std::isnan(cpu::exp(NAN)));
  EXPECT_EQ(cpu::tanh(inf), 1.0f);
  EXPECT_EQ(cpu::tanh(-inf), -1.0f);
  EXPECT_TRUE(std::isnan(cpu::tanh(NAN)));
}

}  // namespace
}  // namespace weft::test
