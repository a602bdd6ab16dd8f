// AdamW against the formula in f64, over several updates, in place.
#include "harness.h"

namespace weft::test {
namespace {

void Check(Rng& rng, DType dtype, DType gradient, const Shape& shape, int threads) {
  DType wide = AccumulateType(dtype);
  Box p = RandomBox(rng, dtype, shape), m(wide, shape), v(wide, shape), lr(wide, {}), scale(wide, {}),
      t(DType::kI64, {});
  Values P = p.All(), M(P.size()), V(P.size());
  m.SetAll(M);
  v.SetAll(V);
  lr.Set(0, 0.0625);  // exact in every type
  scale.Set(0, 0.5);
  const double b1 = 0.9, b2 = 0.95, eps = 1e-8, decay = 0.1;
  Attrs attrs{{"beta1", b1}, {"beta2", b2}, {"eps", eps}, {"weight_decay", decay}};
  for (int step = 1; step <= 3; step++) {
    Box g = RandomBox(rng, gradient, shape);
    t.Set(0, step);
    RunKernel(Op::kAdamW, attrs, {&p, &m, &v, &g, &lr, &scale, &t}, {&p, &m, &v}, threads);
    for (size_t i = 0; i < P.size(); i++) {
      double gi = g.Get(int64_t(i)) * 0.5;
      M[i] = b1 * M[i] + (1 - b1) * gi;
      V[i] = b2 * V[i] + (1 - b2) * gi * gi;
      P[i] -= 0.0625 *
              (M[i] / (1 - std::pow(b1, step)) / (std::sqrt(V[i] / (1 - std::pow(b2, step))) + eps) + decay * P[i]);
    }
    // m may cancel: its error is that of terms of size 1.
    ExpectClose(m, M, Tolerance(wide, 6), 1);
    ExpectClose(v, V, Tolerance(wide, 6), 1e-3);
    ExpectClose(p, P, Tolerance(dtype, 16) * step, 1);
    // Go on from what the kernel stored, so that the roundings of one step do not pile up.
    P = p.All(), M = m.All(), V = v.All();
  }
}

TEST(AdamW, FollowsTheFormula) {
  Rng rng(91);
  for (DType dtype : Floats())
    for (DType gradient : {dtype, AccumulateType(dtype)})
      for (const Shape& shape : std::vector<Shape>{{}, {0}, {1}, {3, 5}, {40, 1000}})
        for (int threads : {1, 2}) Check(rng, dtype, gradient, shape, threads);
}

}  // namespace
}  // namespace weft::test
