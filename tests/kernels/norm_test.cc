// RmsNorm, LayerNorm and their gradients against plain f64 loops.
#include "harness.h"

namespace weft::test {
namespace {

constexpr double kEps = 1e-5;
std::vector<Shape> Shapes() { return {{1}, {7}, {700}, {0, 5}, {3, 1}, {5, 64}, {2, 3, 33}, {100, 40}, {600, 16}}; }
DType Accumulate(DType dtype) { return AccumulateType(dtype); }

struct Row {
  Values h;  // the normalised row
  double mean = 0, rstd = 0;
};
Row Normalise(const Values& x, size_t begin, size_t n, bool center) {
  Row r{Values(n)};
  double square = 0;
  for (size_t i = 0; i < n; i++) r.mean += center ? x[begin + i] / double(n) : 0;
  for (size_t i = 0; i < n; i++) square += (x[begin + i] - r.mean) * (x[begin + i] - r.mean) / double(n);
  r.rstd = 1 / std::sqrt(square + kEps);
  for (size_t i = 0; i < n; i++) r.h[i] = (x[begin + i] - r.mean) * r.rstd;
  return r;
}

void Check(Rng& rng, DType dtype, const Shape& shape, bool layer, int threads) {
  SCOPED_TRACE(testing::Message() << (layer ? "layer_norm " : "rms_norm ") << Name(dtype) << ToString(shape));
  Shape channels{shape.back()}, rows(shape.begin(), shape.end() - 1);
  size_t n = size_t(shape.back()), count = size_t(NumElements(rows));
  Box x = RandomBox(rng, dtype, shape, -1, 3), w = RandomBox(rng, dtype, channels),
      bias = RandomBox(rng, dtype, channels);
  Box y = PaddedBox(rng, dtype, shape), mean = PaddedBox(rng, Accumulate(dtype), rows),
      rstd = PaddedBox(rng, Accumulate(dtype), rows);
  Box dy = RandomBox(rng, dtype, shape), dx = PaddedBox(rng, dtype, shape), dw = PaddedBox(rng, dtype, channels),
      db = PaddedBox(rng, dtype, channels);
  Attrs attrs{{"eps", kEps}};
  if (layer) {
    RunKernel(Op::kLayerNorm, attrs, {&x, &w, &bias}, {&y, &mean, &rstd}, threads);
    RunKernel(Op::kLayerNormGrad, attrs, {&x, &w, &mean, &rstd, &dy}, {&dx, &dw, &db}, threads);
  } else {
    RunKernel(Op::kRmsNorm, attrs, {&x, &w}, {&y, &rstd}, threads);
    RunKernel(Op::kRmsNormGrad, attrs, {&x, &w, &rstd, &dy}, {&dx, &dw}, threads);
  }
  Values vx = x.All(), vw = w.All(), vb = bias.All(), vdy = dy.All(), want_y, want_mean, want_rstd, want_dx, want_dw(n),
         want_db(n);
  double largest_rstd = 0;
  for (size_t r = 0; r < count; r++) {
    Row row = Normalise(vx, r * n, n, layer);
    double along = 0, offset = 0;
    for (size_t i = 0; i < n; i++) {
      double g = vw[i] * vdy[r * n + i];
      along += g * row.h[i] / double(n);
      offset += layer ? g / double(n) : 0;
      want_dw[i] += vdy[r * n + i] * row.h[i];
      want_db[i] += vdy[r * n + i];
      want_y.push_back(row.h[i] * vw[i] + (layer ? vb[i] : 0));
    }
    for (size_t i = 0; i < n; i++) want_dx.push_back(row.rstd * (vw[i] * vdy[r * n + i] - offset - row.h[i] * along));
    want_mean.push_back(row.mean);
    want_rstd.push_back(row.rstd);
    largest_rstd = std::max(largest_rstd, row.rstd);
  }
  // rstd can be large (one column: 316), and multiplies the rounding of the terms it scales.
  double tolerance = Tolerance(dtype, 6), grow = 1 + largest_rstd;
  ExpectClose(y, want_y, tolerance, grow);
  ExpectClose(rstd, want_rstd, Tolerance(Accumulate(dtype), 4));
  ExpectClose(dx, want_dx, tolerance, 8 * grow);
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
        for (int threads : {1, 3}) Check(rng, dtype, shape, layer, threads);
}

}  // namespace
}  // namespace weft::test
