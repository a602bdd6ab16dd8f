// AdamW against the formula in f64, over several updates, in place; and that update 0 is none.
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
  for (DType narrow : {DType::kBF16, DType::kF16}) Check(rng, DType::kF32, narrow, {40, 1000}, 1);
}

// Update 0 is none: the bits of p, m and v stay, whatever the gradient and the scalars hold, in place or not.
void CheckNone(Rng& rng, DType dtype, DType gradient, const Shape& shape, int threads) {
  DType wide = AccumulateType(dtype);
  Box p = RandomBox(rng, dtype, shape), m = RandomBox(rng, wide, shape), v = RandomBox(rng, wide, shape, 0, 2),
      g = RandomBox(rng, gradient, shape), lr(wide, {}), scale(wide, {}), none(DType::kI64, {});
  const double bad[] = {NAN, INFINITY, -INFINITY};
  for (int64_t i = 0; i < g.count(); i += 2) g.Set(i, bad[i / 2 % 3]);
  if (p.count() > 0) p.Set(0, INFINITY);
  lr.Set(0, INFINITY);
  scale.Set(0, NAN);
  none.Set(0, 0);
  Attrs attrs{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", 0.1}};
  Box p0 = p, m0 = m, v0 = v, p1(dtype, shape), m1(wide, shape), v1(wide, shape);
  RunKernel(Op::kAdamW, attrs, {&p, &m, &v, &g, &lr, &scale, &none}, {&p1, &m1, &v1}, threads);
  EXPECT_EQ(p1.All(), p0.All());
  EXPECT_EQ(m1.All(), m0.All());
  EXPECT_EQ(v1.All(), v0.All());
  RunKernel(Op::kAdamW, attrs, {&p, &m, &v, &g, &lr, &scale, &none}, {&p, &m, &v}, threads);
  EXPECT_EQ(p.storage, p0.storage);
  EXPECT_EQ(m.storage, m0.storage);
  EXPECT_EQ(v.storage, v0.storage);
}

TEST(AdamW, UpdateZeroChangesNothing) {
  Rng rng(92);
  for (DType dtype : Floats())
    for (DType gradient : {dtype, AccumulateType(dtype)})
      for (const Shape& shape : std::vector<Shape>{{}, {0}, {1}, {3, 5}, {40, 1000}})
        for (int threads : {1, 2}) CheckNone(rng, dtype, gradient, shape, threads);
  CheckNone(rng, DType::kF32, DType::kF16, {40, 1000}, 1);
}

struct Parameter {
  Box p, m, v, g;
  Attrs attrs;

  Parameter(Rng& rng, DType dtype, DType gradient, const Shape& shape, bool padded)
      : p(Filled(rng, dtype, shape, padded, -2)),
        m(Filled(rng, AccumulateType(dtype), shape, padded, -2)),
        v(Filled(rng, AccumulateType(dtype), shape, padded, 0)),
        g(Filled(rng, gradient, shape, padded, -2)),
        attrs{{"beta1", 0.9}, {"beta2", 0.95}, {"eps", 1e-8}, {"weight_decay", Pick(rng, 0, 1) ? 0.1 : 0.0}} {}
  static Box Filled(Rng& rng, DType dtype, const Shape& shape, bool padded, double low) {
    Box random = RandomBox(rng, dtype, shape, low, 2), dense(dtype, shape);
    dense.SetAll(random.All());
    return padded ? random : dense;
  }
  Job Update(const Box& lr, const Box& scale, const Box& updates) {
    return {attrs, {&p, &m, &v, &g, &lr, &scale, &updates}, {&p, &m, &v}};
  }
};

// Parameters of one batch: of one element, of none, of vectors and not, padded, of other types, with other settings;
// more than one launch takes.
TEST(AdamW, ManyAtOnceAreEachAlone) {
  Rng rng(92);
  Box lr(DType::kF32, {}), scale(DType::kF32, {}), updates(DType::kI64, {});
  lr.Set(0, 3e-3), scale.Set(0, 0.7), updates.Set(0, 3);
  std::vector<Parameter> apart;
  for (int i = 0; i < 450; i++) {
    Shape shape{PickOf<int64_t>(rng, {0, 1, 3, 5, 64, 129, 1023, 4096}), PickOf<int64_t>(rng, {1, 2, 7, 8})};
    DType dtype = i % 7 == 0 ? DType::kBF16 : DType::kF32, gradient = i % 11 == 0 ? DType::kBF16 : DType::kF32;
    apart.emplace_back(rng, dtype, gradient, shape, i % 5 == 0);
    if (i % 13 == 12) apart.back().attrs.Set({"beta1", 0.8});
  }
  std::vector<Parameter> together = apart;
  std::vector<Job> jobs;
  for (size_t i = 0; i < apart.size(); i++) {
    Job alone = apart[i].Update(lr, scale, updates);
    RunKernel(Op::kAdamW, alone.attrs, alone.in, alone.out);
    jobs.push_back(together[i].Update(lr, scale, updates));
  }
  RunMany(Op::kAdamW, jobs);
  for (size_t i = 0; i < apart.size(); i++)
    for (auto box : {&Parameter::p, &Parameter::m, &Parameter::v})
      ASSERT_TRUE((together[i].*box).storage == (apart[i].*box).storage)
          << "parameter " << i << " " << ToString(apart[i].p.shape());
}

}  // namespace
}  // namespace weft::test
