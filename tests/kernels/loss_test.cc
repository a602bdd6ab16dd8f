// CrossEntropy, its gradient and SumExp agree with plain f64 loops.
#include "harness.h"
#include "share.h"

namespace weft::test {
namespace {

void Check(Rng& rng, DType dtype, DType ids, const Shape& rows, int64_t V, double smoothing) {
  SCOPED_TRACE(testing::Message() << Name(dtype) << ToString(rows) << " V=" << V << " smoothing=" << smoothing);
  Shape shape = rows;
  shape.push_back(V);
  DType wide = AccumulateType(dtype);
  Box x = RandomBox(rng, dtype, shape, -6, 6), targets = PaddedBox(rng, ids, rows), loss = PaddedBox(rng, wide, rows),
      lse = PaddedBox(rng, wide, rows);
  Box dloss = RandomBox(rng, wide, rows), dx = PaddedBox(rng, dtype, shape);
  for (int64_t i = 0; i < targets.count(); i++)
    targets.Set(i, Pick(rng, 0, 4) == 0 ? -100 : double(Pick(rng, 0, V - 1)));
  Attrs attrs{{"ignore_index", -100}, {"smoothing", smoothing}};
  RunKernel(Op::kCrossEntropy, attrs, {&x, &targets}, {&loss, &lse});
  RunKernel(Op::kCrossEntropyGrad, attrs, {&x, &targets, &lse, &dloss}, {&dx});
  Values logits = x.All(), want_loss, want_lse, want_dx;
  for (int64_t r = 0; r < targets.count(); r++) {
    double top = -INFINITY;
    long double sum = 0, mean = 0;  // in f64, the reference's sum of 10^5 terms would round more than the tolerance
    for (int64_t i = 0; i < V; i++) top = std::max(top, logits[size_t(r * V + i)]);
    for (int64_t i = 0; i < V; i++) sum += std::exp(logits[size_t(r * V + i)] - top);
    for (int64_t i = 0; i < V; i++) mean += logits[size_t(r * V + i)];
    double total = top + double(std::log(sum));
    int64_t target = int64_t(targets.Get(r));
    want_lse.push_back(total);
    want_loss.push_back(
        target == -100 ? 0 : total - (1 - smoothing) * logits[size_t(r * V + target)] - smoothing * double(mean / V));
    for (int64_t i = 0; i < V; i++)
      want_dx.push_back(target == -100 ? 0
                                       : dloss.Get(r) * (std::exp(logits[size_t(r * V + i)] - total) -
                                                         (1 - smoothing) * (i == target) - smoothing / double(V)));
  }
  ExpectClose(loss, want_loss, Tolerance(wide, 4));
  ExpectClose(lse, want_lse, Tolerance(wide, 2));
  ExpectClose(dx, want_dx, Tolerance(dtype, 16),
              1);  // an error of lse (about 8 * 2^-24) is a relative error of every probability
}

TEST(CrossEntropy, FollowsTheFormula) {
  Rng rng(61);
  for (DType dtype : Floats())
    for (DType ids : {DType::kI32, DType::kI64})
      for (const Shape& rows : std::vector<Shape>{{}, {0}, {1}, {5}, {3, 7}})
        for (int64_t V : {1, 2, 65, 1000})
          for (double smoothing : {0.0, 0.1}) Check(rng, dtype, ids, rows, V, smoothing);
}

TEST(CrossEntropy, TakesWideVocabularies) {
  Rng rng(62);
  for (DType dtype : Floats())
    for (int64_t V : {20001, 20480})
      for (double smoothing : {0.0, 0.1}) Check(rng, dtype, DType::kI64, {4}, V, smoothing);
}

// A GPU splits the rows into parts if there are few of them.
TEST(CrossEntropy, CutsLongRows) {
  Rng rng(63);
  size_t round = 0;
  for (DType dtype : Floats())
    for (int64_t V : {1 << 20, (1 << 20) + 24})  // the second size leaves a shorter last part
      if (!Skips(round)) Check(rng, dtype, DType::kI64, {2}, V, V % 32 ? 0 : 0.1);
}

// A rank that holds columns [first, first + count) of V computes these columns of the gradient, bit for bit.
void CheckShard(Rng& rng, DType dtype, int64_t V, int64_t first, int64_t count, double smoothing) {
  SCOPED_TRACE(testing::Message() << Name(dtype) << " columns " << first << " to " << first + count << " of " << V);
  constexpr int64_t kRows = 7;
  DType wide = AccumulateType(dtype);
  Box x = RandomBox(rng, dtype, {kRows, V}, -6, 6), lse = RandomBox(rng, wide, {kRows}, 4, 9);
  Box targets(DType::kI32, {kRows}), dloss = RandomBox(rng, wide, {kRows}), dx = PaddedBox(rng, dtype, {kRows, V});
  for (int64_t i = 0; i < kRows; i++) targets.Set(i, i == 0 ? -100 : double(Pick(rng, 0, V - 1)));
  targets.Set(1, double(first));
  targets.Set(2, double(first + count - 1));
  Attrs attrs{{"ignore_index", -100}, {"smoothing", smoothing}};
  RunKernel(Op::kCrossEntropyGrad, attrs, {&x, &targets, &lse, &dloss}, {&dx});
  Box part(dtype, {kRows, count}, {0, 3}, {0, first}, {kRows, V}),
      dpart(dtype, {kRows, count}, {}, {0, first}, {kRows, V});
  for (int64_t r = 0; r < kRows; r++)
    for (int64_t i = 0; i < count; i++) part.Set(r * count + i, x.Get(r * V + first + i));
  RunKernel(Op::kCrossEntropyGrad, attrs, {&part, &targets, &lse, &dloss}, {&dpart});
  for (int64_t r = 0; r < kRows; r++)
    for (int64_t i = 0; i < count; i++)
      ASSERT_EQ(dpart.Get(r * count + i), dx.Get(r * V + first + i)) << "row " << r << ", column " << first + i;
}

TEST(CrossEntropy, TakesShardsOfTheVocabulary) {
  Rng rng(64);
  for (DType dtype : Floats())
    for (double smoothing : {0.0, 0.1}) {
      CheckShard(rng, dtype, 100, 0, 50, smoothing);
      CheckShard(rng, dtype, 100, 68, 32, smoothing);
      CheckShard(rng, dtype, 4096, 1024, 2048, smoothing);
      CheckShard(rng, dtype, 41, 40, 1, smoothing);
    }
}

void CheckSumExp(Rng& rng, DType dtype, const Shape& rows, int64_t V) {
  SCOPED_TRACE(testing::Message() << Name(dtype) << ToString(rows) << " V=" << V);
  Shape shape = rows;
  shape.push_back(V);
  DType wide = AccumulateType(dtype);
  Box x = RandomBox(rng, dtype, shape, -6, 6), shift = RandomBox(rng, wide, rows, 3, 6),
      sum = PaddedBox(rng, wide, rows);
  RunKernel(Op::kSumExp, {}, {&x, &shift}, {&sum});
  Values want;
  for (int64_t r = 0; r < sum.count(); r++) {
    long double total = 0;
    for (int64_t i = 0; i < V; i++) total += std::exp(x.Get(r * V + i) - shift.Get(r));
    want.push_back(double(total));
  }
  // The difference x - shift rounds, and so does the exponential: 12 * 2^-24 of each term at most.
  ExpectClose(sum, want, Tolerance(wide, 16));
}

TEST(SumExp, FollowsTheFormula) {
  Rng rng(65);
  for (DType dtype : Floats())
    for (const Shape& rows : std::vector<Shape>{{}, {0}, {1}, {5}, {3, 7}})
      for (int64_t V : {0, 1, 2, 65, 1000, 20480}) CheckSumExp(rng, dtype, rows, V);
}

// A GPU kernel cannot throw, so the loss is NaN there.
TEST(CrossEntropy, RefusesATargetOutsideTheVocabulary) {
  Box x(DType::kF32, {1, 4}), target(DType::kI32, {1}), loss(DType::kF32, {1}), lse(DType::kF32, {1});
  x.SetAll({1, 2, 3, 4});
  target.Set(0, 4);
  auto run = [&] {
    loss.Set(0, 0);
    RunKernel(Op::kCrossEntropy, {{"ignore_index", -100}, {"smoothing", 0.0}}, {&x, &target}, {&loss, &lse});
  };
  if (KindUnderTest() == DeviceKind::kCpu) {
    EXPECT_THROW(run(), Error);
    return;
  }
  run();
  EXPECT_TRUE(std::isnan(loss.Get(0)));
}

}  // namespace
}  // namespace weft::test
