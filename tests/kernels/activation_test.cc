// Gradients of activations agree with their formulas in f64. The sizes include ones that no type's vector length
// divides, paddings and broadcasts.
#include "harness.h"

namespace weft::test {
namespace {

double Sigmoid(double a) { return 1 / (1 + std::exp(-a)); }
double SiluD(double a) { return Sigmoid(a) * (1 + a * (1 - Sigmoid(a))); }
double GeluD(double a) {
  double c = std::sqrt(2 / std::numbers::pi), t = std::tanh(c * (a + 0.044715 * a * a * a));
  return 0.5 * (1 + t) + 0.5 * a * (1 - t * t) * c * (1 + 3 * 0.044715 * a * a);
}

std::vector<Shape> Shapes() {
  std::vector<Shape> shapes{{}, {0}, {2, 0, 3}};
  for (int64_t columns : {1, 7, 8, 129, 4096, 4097})
    for (const Shape& rows : std::vector<Shape>{{}, {3}, {2, 5}}) {
      shapes.push_back(rows);
      shapes.back().push_back(columns);
    }
  return shapes;
}

// Returns an operand that is dense or padded after each row, like the halves of one product. With any_strides some dims
// may be broadcasts.
Box Operand(Rng& rng, DType dtype, const Shape& shape, bool any_strides) {
  Box random = RandomBox(rng, dtype, shape, -6, 6), dense(dtype, shape);
  dense.SetAll(random.All());
  Box box = Pick(rng, 0, 2) ? dense : random;
  // If an exponential leaves the range of f32, the derivatives are still exactly 0 or 1.
  for (double extreme : {-90.0, 90.0})
    if (box.count() > 0) box.Set(Pick(rng, 0, box.count() - 1), extreme);
  for (int d = 0; any_strides && d < box.view.rank; d++)
    if (box.view.dim(d).extent > 0 && Pick(rng, 0, 4) == 0) box.view.dims[size_t(d)].stride = 0;
  return box;
}

struct Case {
  DType dtype;
  Shape shape;
};
std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes())
      for (int i = 0; i < 3; i++) cases.push_back({dtype, shape});
  return cases;
}

TEST(Activation, SwiGluGradFollowsTheFormula) {
  Rng rng(131);
  bool any_strides = Table().Row(Op::kSwiGluGrad).any_strides;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::Message() << Name(c.dtype) << ToString(c.shape));
    auto operand = [&] { return Operand(rng, c.dtype, c.shape, any_strides); };
    Box a = operand(), b = operand(), dy = operand(), da = PaddedBox(rng, c.dtype, c.shape),
        db = PaddedBox(rng, c.dtype, c.shape);
    RunKernel(Op::kSwiGluGrad, {}, {&a, &b, &dy}, {&da, &db});
    for (int64_t i = 0; i < da.count(); i++) {
      double g = dy.Get(i), x = a.Get(i), y = b.Get(i), want_a = g * y * SiluD(x), want_b = g * x * Sigmoid(x);
      // Allows a dozen roundings. da comes near 0 where 1 + x (1 - sigmoid) does, although its terms are as large as
      // its factors, so they scale the tolerance too.
      double tolerance = Tolerance(c.dtype, 12);
      ASSERT_NEAR(da.Get(i), want_a, tolerance * (std::fabs(want_a) + std::fabs(g * y) + 1e-3)) << i << " at " << x;
      ASSERT_NEAR(db.Get(i), want_b, tolerance * (std::fabs(want_b) + 1e-3)) << i << " at " << x;
    }
  }
}

TEST(Activation, GeluGradFollowsTheFormula) {
  Rng rng(132);
  bool any_strides = Table().Row(Op::kGeluGrad).any_strides;
  for (const Case& c : Cases()) {
    SCOPED_TRACE(testing::Message() << Name(c.dtype) << ToString(c.shape));
    Box dy = Operand(rng, c.dtype, c.shape, any_strides), x = Operand(rng, c.dtype, c.shape, any_strides),
        dx = PaddedBox(rng, c.dtype, c.shape);
    RunKernel(Op::kGeluGrad, {}, {&dy, &x}, {&dx});
    for (int64_t i = 0; i < dx.count(); i++) {
      double g = dy.Get(i), want = g * GeluD(x.Get(i));
      // Near the zeros of the derivative there are a dozen roundings of values near 1. At x = 6 the terms of the second
      // part are about 30.
      ASSERT_NEAR(dx.Get(i), want, Tolerance(c.dtype, 64) * (std::fabs(want) + std::fabs(g) + 1e-3))
          << i << " at " << x.Get(i);
    }
  }
}

// Values in rows that lie `gap` elements further apart than they are long, as parts of a joined value do.
Box Rows(Rng& rng, const Shape& shape, int64_t gap, double scale, DType dtype = DType::kBF16) {
  Shape padding(shape.size(), 0);
  padding.back() = gap;
  Box box(dtype, shape, padding);
  std::normal_distribution<double> normal(0, scale);
  for (int64_t i = 0; i < box.count(); i++) box.Set(i, normal(rng));
  return box;
}

struct MlpCase {
  int64_t rows, columns, terms, gap;
};

// The sums of a product may be in another order, so dy may round to a neighbour, 2^-8 apart, and da and db round again.
TEST(LinearSwiGluGrad, IsTheProductAndTheGradientOneByOne) {
  if (!Table().Has(Op::kLinearSwiGluGrad)) GTEST_SKIP() << "the device has no such kernel";
  Rng rng(29);
  for (const MlpCase& c : {MlpCase{2048, 256, 256, 0},
                           {2048, 512, 320, 512},
                           {4096, 1024, 512, 8},
                           {2048, 256, 64, 0},
                           {2048, 512, 128, 0},  // the kernel's tiles
                           {2048, 264, 256, 0},
                           {100, 24, 40, 8}}) {  // others
    SCOPED_TRACE(fmt::format("{} x {} x {}, gap {}", c.rows, c.columns, c.terms, c.gap));
    Shape wide{2, c.rows / 2, c.columns};
    Box x = Rows(rng, {2, c.rows / 2, c.terms}, 0, 1), w = Rows(rng, {c.columns, c.terms}, 0, 0.1);
    Box a = Rows(rng, wide, c.gap, 1), b = Rows(rng, wide, c.gap, 1);
    Box da = Rows(rng, wide, c.gap, 1), db = Rows(rng, wide, c.gap, 1);
    RunKernel(Op::kLinearSwiGluGrad, {{"eq", "btc,fc->btf"}}, {&x, &w, &a, &b}, {&da, &db});
    Box dy(DType::kBF16, wide), want_da(DType::kBF16, wide), want_db(DType::kBF16, wide);
    RunKernel(Op::kEinsum, {{"eq", "btc,fc->btf"}}, {&x, &w}, {&dy});
    RunKernel(Op::kSwiGluGrad, {}, {&a, &b, &dy}, {&want_da, &want_db});
    for (auto [got, want] : {std::pair(&da, &want_da), {&db, &want_db}})
      for (int64_t i = 0; i < got->count(); i++)
        ASSERT_LE(std::abs(got->Get(i) - want->Get(i)), 0x1p-6 * std::abs(want->Get(i)) + 1e-3) << i;
  }
}

// A product x w^T and the gradient of GELU at a: by one op, and one by one.
struct GeluGrads {
  Box x, w, a, da, dy, want;

  // Rows of a and of the result lie so many elements further apart than they are long.
  GeluGrads(Rng& rng, DType dtype, const MlpCase& c, int64_t gap_of_result)
      : x(Rows(rng, {c.rows, c.terms}, 0, 1, dtype)),
        w(Rows(rng, {c.columns, c.terms}, 0, 0.1, dtype)),
        a(Rows(rng, {c.rows, c.columns}, c.gap, 1, dtype)),
        da(Rows(rng, {c.rows, c.columns}, gap_of_result, 1, dtype)),
        dy(dtype, {c.rows, c.columns}),
        want(dtype, {c.rows, c.columns}) {}
  void Run() {
    RunKernel(Op::kLinearGeluGrad, {{"eq", "bc,fc->bf"}}, {&x, &w, &a}, {&da});
    RunKernel(Op::kEinsum, {{"eq", "bc,fc->bf"}}, {&x, &w}, {&dy});
    RunKernel(Op::kGeluGrad, {}, {&dy, &a}, {&want});
  }
};

// In 16 bits dy is not rounded before it is multiplied. In f32 both are the same two kernels.
TEST(LinearGeluGrad, IsTheProductAndTheGradientOneByOne) {
  if (!Table().Has(Op::kLinearGeluGrad)) GTEST_SKIP() << "the device has no such kernel";
  Rng rng(31);
  const std::pair<MlpCase, int64_t> cases[] = {
      {{2048, 768, 256, 0}, 0}, {{512, 1024, 320, 512}, 512}, {{512, 1024, 320, 512}, 0}, {{512, 1024, 320, 0}, 8},
      {{2048, 264, 100, 0}, 0}, {{100, 24, 40, 8}, 8},        {{100, 1027, 512, 0}, 0},   {{3, 50, 7, 0}, 0}};
  for (DType dtype : {DType::kBF16, DType::kF16, DType::kF32})
    for (const auto& [c, gap_of_result] : cases) {
      SCOPED_TRACE(fmt::format("{}, {} x {} x {}, gaps {} and {}", Name(dtype), c.rows, c.columns, c.terms, c.gap,
                               gap_of_result));
      GeluGrads one(rng, dtype, c, gap_of_result);
      one.Run();
      double rounding = dtype == DType::kF32 ? 1e-6 : 0x1p-7, near_zero = dtype == DType::kF32 ? 1e-6 : 2e-5;
      for (int64_t i = 0; i < one.want.count(); i++)
        ASSERT_LE(std::abs(one.da.Get(i) - one.want.Get(i)),
                  rounding * std::abs(one.want.Get(i)) + near_zero * std::abs(one.dy.Get(i)) + 1e-5)
            << i;
    }
}

// dy is 1. The library's derivative is nearly exact: an error of 1e-5 is 2^-7 of the derivative at -3.5, which bf16
// rounds by 2^-9.
TEST(LinearGeluGrad, IsTheDerivativeEverywhere) {
  if (!Table().Has(Op::kLinearGeluGrad)) GTEST_SKIP() << "the device has no such kernel";
  for (auto [dtype, rounding] : {std::pair(DType::kBF16, 0x1p-8), {DType::kF16, 0x1p-11}}) {
    constexpr int64_t kRows = 256, kColumns = 256, kTerms = 64;
    Box x(dtype, {kRows, kTerms}), w(dtype, {kColumns, kTerms}), a(dtype, {kRows, kColumns}), da = a;
    for (int64_t i = 0; i < x.count(); i++) x.Set(i, i % kTerms == 0), w.Set(i, i % kTerms == 0);
    for (int64_t i = 0; i < a.count(); i++) a.Set(i, -12 + 24 * double(i) / double(a.count()));
    RunKernel(Op::kLinearGeluGrad, {{"eq", "bc,fc->bf"}}, {&x, &w, &a}, {&da});
    for (int64_t i = 0; i < a.count(); i++) {
      double want = GeluD(a.Get(i));
      ASSERT_LE(std::abs(da.Get(i) - want), rounding * std::abs(want) + 2e-5) << Name(dtype) << " at " << a.Get(i);
    }
  }
}

// A NaN of any operand reaches the gradients that depend on it, and no others, in the tiles of the fused kernels.
TEST(LinearGrads, KeepNaN) {
  if (!Table().Has(Op::kLinearGeluGrad)) GTEST_SKIP() << "the device has no such kernel";
  Rng rng(37);
  constexpr int64_t kRows = 2048, kColumns = 256, kTerms = 64, kRow = 777, kColumn = 99;
  for (Op op : {Op::kLinearGeluGrad, Op::kLinearSwiGluGrad})
    for (size_t spoilt = 0; spoilt < (op == Op::kLinearGeluGrad ? 3 : 4); spoilt++) {
      std::vector<Box> in{Rows(rng, {kRows, kTerms}, 0, 1), Rows(rng, {kColumns, kTerms}, 0, 0.1),
                          Rows(rng, {kRows, kColumns}, 0, 30), Rows(rng, {kRows, kColumns}, 0, 1)};
      in[spoilt].Set(spoilt == 0   ? kRow * kTerms + 5
                     : spoilt == 1 ? kColumn * kTerms + 5
                                   : kRow * kColumns + kColumn,
                     NAN);
      Box da(DType::kBF16, {kRows, kColumns}), db = da;
      if (op == Op::kLinearGeluGrad)
        RunKernel(op, {{"eq", "bc,fc->bf"}}, {&in[0], &in[1], &in[2]}, {&da});
      else
        RunKernel(op, {{"eq", "bc,fc->bf"}}, {&in[0], &in[1], &in[2], &in[3]}, {&da, &db});
      for (int64_t i = 0; i < da.count(); i++) {
        bool row = i / kColumns == kRow, column = i % kColumns == kColumn;
        bool reached = spoilt == 0 ? row : spoilt == 1 ? column : row && column;
        ASSERT_EQ(std::isnan(da.Get(i)), reached) << Name(op) << ", operand " << spoilt << ", element " << i;
        if (op == Op::kLinearSwiGluGrad && spoilt != 3) {
          ASSERT_EQ(std::isnan(db.Get(i)), reached) << i;
        }
      }
    }
}

}  // namespace
}  // namespace weft::test
