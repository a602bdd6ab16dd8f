// RmsNorm, LayerNorm and their gradients against plain f64 loops.
#include "harness.h"

namespace weft::test {
namespace {

constexpr double kEps = 1e-5;
std::vector<Shape> Shapes() {
  return {{1},       {7},       {700},     {0, 5},    {3, 1},    {5, 64},   {2, 3, 33},
          {100, 40}, {600, 16}, {50, 768}, {3, 1600}, {7, 4096}, {2, 20000}};
}
DType Accumulate(DType dtype) { return AccumulateType(dtype); }

// Boxes of a test: padded, or dense, as whole tensors are and as kernels of wide loads like them.
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
  long double mean = 0, square = 0;  // sums of wide rows would round more than the kernels may
  for (size_t i = 0; i < n; i++) mean += center ? x[begin + i] : 0;
  mean /= n;
  for (size_t i = 0; i < n; i++) square += (x[begin + i] - mean) * (x[begin + i] - mean);
  r.mean = double(mean);
  r.rstd = double(1 / std::sqrt(square / n + kEps));
  for (size_t i = 0; i < n; i++) r.h[i] = double(x[begin + i] - mean) * r.rstd;
  return r;
}

void Check(Rng& rng, DType dtype, const Shape& shape, bool layer, bool dense, int threads) {
  SCOPED_TRACE(testing::Message() << (layer ? "layer_norm " : "rms_norm ") << Name(dtype) << ToString(shape)
                                  << (dense ? " dense" : ""));
  Shape channels{shape.back()}, rows(shape.begin(), shape.end() - 1);
  size_t n = size_t(shape.back()), count = size_t(NumElements(rows));
  Maker make{rng, dense};
  Box x = make.In(dtype, shape, -1, 3), w = make.In(dtype, channels), bias = make.In(dtype, channels);
  Box y = make.Out(dtype, shape), mean = make.Out(Accumulate(dtype), rows), rstd = make.Out(Accumulate(dtype), rows);
  Box dy = make.In(dtype, shape), dx = make.Out(dtype, shape), dw = make.Out(dtype, channels),
      db = make.Out(dtype, channels);
  Attrs attrs{{"eps", kEps}};
  if (layer) {
    RunKernel(Op::kLayerNorm, attrs, {&x, &w, &bias}, {&y, &mean, &rstd}, threads);
    RunKernel(Op::kLayerNormGrad, attrs, {&x, &w, &mean, &rstd, &dy}, {&dx, &dw, &db}, threads);
  } else {
    RunKernel(Op::kRmsNorm, attrs, {&x, &w}, {&y, &rstd}, threads);
    RunKernel(Op::kRmsNormGrad, attrs, {&x, &w, &rstd, &dy}, {&dx, &dw}, threads);
  }
  // The same with a term added to dx, where there is such a kernel.
  Op add_op = layer ? Op::kLayerNormGradAdd : Op::kRmsNormGradAdd;
  Box term = make.In(dtype, shape), dx_term = make.Out(dtype, shape), dw_term = make.Out(dtype, channels),
      db_term = make.Out(dtype, channels);
  bool adds = Table().Has(add_op);
  if (adds && layer)
    RunKernel(add_op, attrs, {&x, &w, &mean, &rstd, &dy, &term}, {&dx_term, &dw_term, &db_term}, threads);
  if (adds && !layer) RunKernel(add_op, attrs, {&x, &w, &rstd, &dy, &term}, {&dx_term, &dw_term}, threads);
  Values vx = x.All(), vw = w.All(), vb = bias.All(), vdy = dy.All(), want_y, want_mean, want_rstd, want_dx, want_dw(n),
         want_db(n);
  double largest_rstd = 0;
  for (size_t r = 0; r < count; r++) {
    Row row = Normalise(vx, r * n, n, layer);
    long double along = 0, offset = 0;
    for (size_t i = 0; i < n; i++) {
      double g = vw[i] * vdy[r * n + i];
      along += g * row.h[i] / double(n);
      offset += layer ? g / double(n) : 0;
      want_dw[i] += vdy[r * n + i] * row.h[i];
      want_db[i] += vdy[r * n + i];
      want_y.push_back(row.h[i] * vw[i] + (layer ? vb[i] : 0));
    }
    for (size_t i = 0; i < n; i++)
      want_dx.push_back(double(row.rstd * (vw[i] * vdy[r * n + i] - offset - row.h[i] * along)));
    want_mean.push_back(row.mean);
    want_rstd.push_back(row.rstd);
    largest_rstd = std::max(largest_rstd, row.rstd);
  }
  // rstd can be large (one column: 316), and multiplies the rounding of the terms it scales.
  double tolerance = Tolerance(dtype, 6), grow = 1 + largest_rstd;
  ExpectClose(y, want_y, tolerance, grow);
  ExpectClose(rstd, want_rstd, Tolerance(Accumulate(dtype), 4));
  ExpectClose(dx, want_dx, tolerance, 8 * grow);
  if (adds) {
    EXPECT_EQ(dw_term.All(), dw.All());
    for (size_t i = 0; i < want_dx.size(); i++) want_dx[i] += term.Get(int64_t(i));
    ExpectClose(dx_term, want_dx, tolerance, 8 * grow);
  }
  ExpectClose(dw, want_dw, tolerance, std::sqrt(double(count)) * grow);
  if (layer) {
    ExpectClose(mean, want_mean, Tolerance(Accumulate(dtype), 2));
    ExpectClose(db, want_db, tolerance, std::sqrt(double(count)));
  }
}

TEST(Norm, ForwardAndBackwardFollowTheFormula) {
  Rng rng(51);
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes())
      for (bool layer : {false, true})
        for (bool dense : {false, true}) Check(rng, dtype, shape, layer, dense, dense ? 1 : 3);
}

}  // namespace
}  // namespace weft::test
