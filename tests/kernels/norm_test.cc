// RmsNorm, LayerNorm and their gradients agree with plain f64 loops.
#include "harness.h"

namespace weft::test {
namespace {

constexpr double kEps = 1e-5;
std::vector<Shape> Shapes() {
  return {{1},       {7},       {700},     {0, 5},    {3, 1},    {5, 64},   {2, 3, 33},
          {100, 40}, {600, 16}, {50, 768}, {3, 1600}, {7, 4096}, {2, 20000}};
}

// Makes the boxes of a test. They are padded, or dense as whole tensors are, which lets kernels use wide loads.
struct Maker {
  Rng& rng;
  bool dense;
  Box Out(DType dtype, const Shape& shape) { return dense ? Box(dtype, shape) : PaddedBox(rng, dtype, shape); }
  Box In(DType dtype, const Shape& shape, double low = -2, double high = 2) {
    Box box = Out(dtype, shape);
    std::uniform_real_distribution<double> uniform(low, high);
    for (int64_t i = 0; i < box.count(); i++) box.Set(i, uniform(rng));
    return box;
  }
};

struct Row {
  Values h;  // the normalised row
  double mean = 0, rstd = 0;
};
Row Normalise(const Values& x, size_t begin, size_t n, bool center) {
  Row r{Values(n)};
  long double mean = 0, square = 0;  // f64 sums of wide rows would round more than the tolerance
  for (size_t i = 0; i < n; i++) mean += center ? x[begin + i] : 0;
  mean /= n;
  for (size_t i = 0; i < n; i++) square += (x[begin + i] - mean) * (x[begin + i] - mean);
  r.mean = double(mean);
  r.rstd = double(1 / std::sqrt(square / n + kEps));
  for (size_t i = 0; i < n; i++) r.h[i] = double(x[begin + i] - mean) * r.rstd;
  return r;
}

// The results of both passes by the formula.
struct Want {
  Values y, mean, rstd, dx, dw, db;
  double largest_rstd = 0;
};
Want WantOf(const Values& x, const Values& w, const Values& bias, const Values& dy, bool layer) {
  size_t n = w.size();
  Want want;
  want.dw.resize(n), want.db.resize(n);
  for (size_t begin = 0; begin < x.size(); begin += n) {
    Row row = Normalise(x, begin, n, layer);
    long double along = 0, offset = 0;
    for (size_t i = 0; i < n; i++) {
      double g = w[i] * dy[begin + i];
      along += g * row.h[i] / double(n);
      offset += layer ? g / double(n) : 0;
      want.dw[i] += dy[begin + i] * row.h[i];
      want.db[i] += dy[begin + i];
      want.y.push_back(row.h[i] * w[i] + (layer ? bias[i] : 0));
    }
    for (size_t i = 0; i < n; i++)
      want.dx.push_back(double(row.rstd * (w[i] * dy[begin + i] - offset - row.h[i] * along)));
    want.mean.push_back(row.mean);
    want.rstd.push_back(row.rstd);
    want.largest_rstd = std::max(want.largest_rstd, row.rstd);
  }
  return want;
}

void Check(Rng& rng, DType dtype, const Shape& shape, bool layer, bool dense, int threads) {
  SCOPED_TRACE(testing::Message() << (layer ? "layer_norm " : "rms_norm ") << Name(dtype) << ToString(shape)
                                  << (dense ? " dense" : ""));
  Shape channels{shape.back()}, rows(shape.begin(), shape.end() - 1);
  size_t count = size_t(NumElements(rows));
  Maker make{rng, dense};
  DType wide = AccumulateType(dtype);
  Box x = make.In(dtype, shape, -1, 3), w = make.In(wide, channels), bias = make.In(wide, channels);
  Box y = make.Out(dtype, shape), mean = make.Out(wide, rows), rstd = make.Out(wide, rows);
  Box dy = make.In(dtype, shape), dx = make.Out(dtype, shape), dw = make.Out(wide, channels),
      db = make.Out(wide, channels);
  Attrs attrs{{"eps", kEps}};
  if (layer) {
    RunKernel(Op::kLayerNorm, attrs, {&x, &w, &bias}, {&y, &mean, &rstd}, threads);
    RunKernel(Op::kLayerNormGrad, attrs, {&x, &w, &mean, &rstd, &dy}, {&dx, &dw, &db}, threads);
  } else {
    RunKernel(Op::kRmsNorm, attrs, {&x, &w}, {&y, &rstd}, threads);
    RunKernel(Op::kRmsNormGrad, attrs, {&x, &w, &rstd, &dy}, {&dx, &dw}, threads);
  }
  // The same gradient with a term added to dx, if the device has that kernel.
  Op add_op = layer ? Op::kLayerNormGradAdd : Op::kRmsNormGradAdd;
  Box term = make.In(dtype, shape), dx_term = make.Out(dtype, shape), dw_term = make.Out(wide, channels),
      db_term = make.Out(wide, channels);
  bool adds = Table().Has(add_op);
  if (adds && layer)
    RunKernel(add_op, attrs, {&x, &w, &mean, &rstd, &dy, &term}, {&dx_term, &dw_term, &db_term}, threads);
  if (adds && !layer) RunKernel(add_op, attrs, {&x, &w, &rstd, &dy, &term}, {&dx_term, &dw_term}, threads);
  Want want = WantOf(x.All(), w.All(), bias.All(), dy.All(), layer);
  // rstd can be large (316 with one column), and it amplifies the rounding of the terms that it scales.
  double tolerance = Tolerance(dtype, 6), grow = 1 + want.largest_rstd;
  ExpectClose(y, want.y, tolerance, grow);
  ExpectClose(rstd, want.rstd, Tolerance(wide, 4));
  ExpectClose(dx, want.dx, tolerance, 8 * grow);
  if (adds) {
    for (size_t i = 0; i < want.dx.size(); i++) want.dx[i] += term.Get(int64_t(i));
    ExpectClose(dx_term, want.dx, tolerance, 8 * grow);
  }
  double wide_tolerance = Tolerance(wide, 6);  // the sums keep digits that a 16-bit float would lose
  ExpectClose(dw, want.dw, wide_tolerance, std::sqrt(double(count)) * grow);
  if (adds) ExpectClose(dw_term, want.dw, wide_tolerance, std::sqrt(double(count)) * grow);
  if (layer) {
    ExpectClose(mean, want.mean, Tolerance(wide, 2));
    ExpectClose(db, want.db, wide_tolerance, std::sqrt(double(count)));
  }
}

TEST(Norm, ForwardAndBackwardFollowTheFormula) {
  Rng rng(51);
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes())
      for (bool layer : {false, true})
        for (bool dense : {false, true}) Check(rng, dtype, shape, layer, dense, dense ? 1 : 3);
}

// A weight of 1 plus a quarter of the type's half unit scales y and dx of 16-bit floats on average, although each
// element is rounded. Weights in the 16-bit type would still be 1.
TEST(Norm, WeightsKeepWhatTheOperandsTypeWouldRoundAway) {
  Rng rng(52);
  Attrs attrs{{"eps", kEps}};
  for (DType dtype : {DType::kBF16, DType::kF16})
    for (int64_t columns : {700, 768})  // not a multiple of the vector length, and a multiple
      for (bool layer : {false, true}) {
        SCOPED_TRACE(testing::Message() << (layer ? "layer_norm " : "rms_norm ") << Name(dtype) << " " << columns);
        Maker make{rng, true};
        DType wide = AccumulateType(dtype);
        Shape shape{64, columns};
        Box x = make.In(dtype, shape), dy = make.In(dtype, shape), bias(wide, {columns}), mean(wide, {64}),
            rstd(wide, {64}), dw(wide, {columns}), db(wide, {columns});
        for (int64_t i = 0; i < columns; i++) bias.Set(i, 0);
        double step = Epsilon(dtype) / 4, y_sum[2] = {}, dx_sum[2] = {};
        for (int n : {0, 1}) {
          Box w(wide, {columns}), y(dtype, shape), dx(dtype, shape);
          for (int64_t i = 0; i < columns; i++) w.Set(i, 1 + n * step);
          if (layer) {
            RunKernel(Op::kLayerNorm, attrs, {&x, &w, &bias}, {&y, &mean, &rstd});
            RunKernel(Op::kLayerNormGrad, attrs, {&x, &w, &mean, &rstd, &dy}, {&dx, &dw, &db});
          } else {
            RunKernel(Op::kRmsNorm, attrs, {&x, &w}, {&y, &rstd});
            RunKernel(Op::kRmsNormGrad, attrs, {&x, &w, &rstd, &dy}, {&dx, &dw});
          }
          for (double v : y.All()) y_sum[n] += std::fabs(v);
          for (double v : dx.All()) dx_sum[n] += std::fabs(v);
        }
        // One element's rounding is about 1.6 steps; the mean over 45,000 elements is off by about 0.01 steps.
        EXPECT_NEAR(y_sum[1] / y_sum[0] - 1, step, 0.2 * step);
        EXPECT_NEAR(dx_sum[1] / dx_sum[0] - 1, step, 0.2 * step);
      }
}

}  // namespace
}  // namespace weft::test
