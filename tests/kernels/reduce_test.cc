// Reductions agree with plain f64 loops.
#include "harness.h"

namespace weft::test {
namespace {

std::vector<Shape> Shapes() {
  Rng rng(21);
  std::vector<Shape> shapes{{1}, {0}, {3000}, {40, 1030}, {1030, 40}, {3, 600, 20}, {2, 0, 4}};
  for (int i = 0; i < 25; i++) shapes.push_back(RandomShape(rng, int(Pick(rng, 1, 4))));
  return shapes;
}

// Returns, for each output element, the values of x along dim.
std::vector<Values> Lines(const Box& x, int dim) {
  Shape kept = x.shape();
  kept.erase(kept.begin() + dim);
  std::vector<Values> lines(size_t(NumElements(kept)));
  int64_t i = 0;
  ForEachIndex(x.shape(), [&](Shape index) {
    index.erase(index.begin() + dim);
    lines[size_t(Linear(kept, index))].push_back(x.Get(i++));
  });
  return lines;
}

struct Law {
  Op op;
  double identity;
  double (*join)(double, double);
};
const Law kLaws[] = {{Op::kReduceSum, 0, [](double a, double b) { return a + b; }},
                     {Op::kReduceProd, 1, [](double a, double b) { return a * b; }},
                     {Op::kReduceMax, -INFINITY, [](double a, double b) { return std::max(a, b); }},
                     {Op::kReduceMin, INFINITY, [](double a, double b) { return std::min(a, b); }}};

TEST(Reduce, FollowsTheFold) {
  Rng rng(22);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32})
    for (const Shape& shape : Shapes())
      for (const Law& law : kLaws) {
        int dim = int(Pick(rng, 0, int64_t(shape.size()) - 1));
        bool fold_is_defined = IsFloating(dtype) || shape[size_t(dim)] > 0 || law.op == Op::kReduceSum;
        if (!fold_is_defined) continue;
        Box x =
            law.op == Op::kReduceProd ? RandomBox(rng, dtype, shape, 0.9, 1.11) : RandomBox(rng, dtype, shape, -4, 4);
        Shape kept = shape;
        kept.erase(kept.begin() + dim);
        Box y = PaddedBox(rng, dtype, kept);
        RunKernel(law.op, {{"dim", dim}}, {&x}, {&y});
        Values want;
        double size = 0;
        for (const Values& line : Lines(x, dim)) {
          double total = law.identity, magnitude = 0;
          for (double v : line) {
            total = law.join(total, v);
            magnitude += std::fabs(v);
          }
          want.push_back(total);
          size = std::max(size, magnitude);
        }
        SCOPED_TRACE(Name(law.op));
        // f32 sums run in f64, so only the last rounding remains. f64 sums round n times.
        double scale = dtype == DType::kF64 ? size : 0,
               tolerance = dtype == DType::kF64 ? 1e-13 : 1.01 * Epsilon(dtype) + 1e-12;
        ExpectClose(y, want, IsFloating(dtype) ? tolerance : 0, scale + 1e-30);
        if (law.op != Op::kReduceSum || SizeOf(dtype) != 2) continue;
        // With `wide` the result is f32. A device may add a few neighbouring 16-bit values in f32 before it continues
        // in f64.
        Box wide = PaddedBox(rng, DType::kF32, kept);
        RunKernel(law.op, {{"dim", dim}, {"wide", 1}}, {&x}, {&wide});
        ExpectClose(wide, want, 0x1p-23, size + 1e-30);
      }
}

TEST(Reduce, WideSumsDoNotOverflow) {
  for (const Shape& shape : {Shape{100, 64}, {3000, 8}, {5, 3}, {40, 3, 16}}) {
    Box x(DType::kF16, shape), y(DType::kF32, Shape(shape.begin() + 1, shape.end()));
    for (int64_t i = 0; i < x.count(); i++) x.Set(i, 60000);
    RunKernel(Op::kReduceSum, {{"dim", 0}, {"wide", 1}}, {&x}, {&y});
    ExpectClose(y, Values(size_t(y.count()), 60000.0 * double(shape[0])), 1e-6);
  }
}

TEST(Reduce, MaxKeepsNaN) {
  Box x(DType::kF32, {40}), y(DType::kF32, {});
  for (int64_t i = 0; i < 40; i++) x.Set(i, i == 7 ? NAN : double(i));
  RunKernel(Op::kReduceMax, {{"dim", 0}}, {&x}, {&y});
  EXPECT_TRUE(std::isnan(y.Get(0)));
}

// Returns the index of the first NaN if there is one, else that of the first maximum.
double ArgMaxOf(const Values& line) {
  auto less = [](double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); };
  return double(std::max_element(line.begin(), line.end(), less) - line.begin());
}

void SpoilSome(Rng& rng, Box& box) {
  for (int n = 0; box.count() > 0 && n < 3; n++) box.Set(Pick(rng, 0, box.count() - 1), NAN);
}

TEST(Reduce, ArgMaxGivesTheLowestGlobalIndex) {
  Rng rng(23);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32})
    for (const Shape& shape : Shapes()) {
      int dim = int(Pick(rng, 0, int64_t(shape.size()) - 1));
      if (shape[size_t(dim)] == 0) continue;
      Box x = RandomBox(rng, dtype, shape, -3, 3);
      for (int64_t i = 0; i < x.count(); i++) x.Set(i, std::round(x.Get(i)));  // makes many ties
      if (IsFloating(dtype)) SpoilSome(rng, x);
      x.view.dims[size_t(dim)].offset = 100;
      Shape kept = shape;
      kept.erase(kept.begin() + dim);
      Box y = PaddedBox(rng, DType::kI64, kept);
      RunKernel(Op::kArgMax, {{"dim", dim}}, {&x}, {&y});
      Values want;
      for (const Values& line : Lines(x, dim)) want.push_back(100 + ArgMaxOf(line));
      ExpectClose(y, want, 0);
    }
}

// Rows of a vocabulary's length are taken by more threads than short ones.
TEST(Reduce, ArgMaxOfLongRowsGivesTheLowestIndexToo) {
  Rng rng(26);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kI64})
    for (int64_t length : {2047, 2048, 2049, 50257})
      for (int dim : {0, 1}) {
        SCOPED_TRACE(testing::Message() << Name(dtype) << ", " << length << " along " << dim);
        Box x = RandomBox(rng, dtype, dim == 0 ? Shape{length, 3} : Shape{3, length}, -100, 100);
        for (int64_t i = 0; i < x.count(); i++) x.Set(i, std::round(x.Get(i)));  // makes many ties
        if (IsFloating(dtype)) SpoilSome(rng, x);
        Box y = PaddedBox(rng, DType::kI64, {3});
        RunKernel(Op::kArgMax, {{"dim", dim}}, {&x}, {&y});
        Values want;
        for (const Values& line : Lines(x, dim)) want.push_back(ArgMaxOf(line));
        ExpectClose(y, want, 0);
      }
}

TEST(Reduce, SumOfSquares) {
  Rng rng(24);
  for (DType dtype : Floats())
    for (Shape shape : Shapes()) {
      Box x = RandomBox(rng, dtype, shape), y(dtype == DType::kF64 ? DType::kF64 : DType::kF32, {});
      RunKernel(Op::kSumOfSquares, {}, {&x}, {&y});
      double want = 0;
      for (double v : x.All()) want += v * v;
      ExpectClose(y, {want}, dtype == DType::kF64 ? 1e-13 : 0x1p-23, 0);
    }
}

// The tensors of one batch are dense or padded and have one element, none, or sizes that are or are not a multiple of
// the vector length. There are more than one launch takes.
TEST(Reduce, SumOfSquaresOfManyIsThatOfEach) {
  Rng rng(25);
  for (DType dtype : Floats()) {
    DType wide = AccumulateType(dtype);
    std::vector<Box> x, apart, together;
    for (int i = 0; i < 600; i++) {
      Shape shape{PickOf<int64_t>(rng, {0, 1, 3, 8, 129, 1024, 5000}), PickOf<int64_t>(rng, {1, 2, 7, 8})};
      x.push_back(i % 3 ? RandomBox(rng, dtype, shape) : Box(dtype, shape));
      if (i % 3 == 0) x.back().SetAll(RandomBox(rng, dtype, shape).All());
      apart.emplace_back(wide, Shape{}), together.emplace_back(wide, Shape{});
    }
    std::vector<Job> jobs;
    for (size_t i = 0; i < x.size(); i++) {
      jobs.push_back({{}, {&x[i]}, {&together[i]}});
      RunKernel(Op::kSumOfSquares, {}, {&x[i]}, {&apart[i]});
    }
    RunMany(Op::kSumOfSquares, jobs);
    for (size_t i = 0; i < x.size(); i++)
      ASSERT_TRUE(together[i].storage == apart[i].storage)
          << Name(dtype) << ToString(x[i].shape()) << ": " << together[i].Get(0) << " and apart " << apart[i].Get(0);
  }
}

TEST(Reduce, CumSumAddsUpAlongTheDim) {
  Rng rng(26);
  std::vector<Shape> shapes = Shapes();
  for (Shape longer : std::vector<Shape>{{70001}, {3, 40000}, {9000, 5}, {2, 4097, 3}, {1, 1025}, {33, 1024}})
    shapes.push_back(longer);
  for (DType dtype : {DType::kF64, DType::kF32, DType::kBF16, DType::kF16, DType::kI64, DType::kI32})
    for (const Shape& shape : shapes) {
      SCOPED_TRACE(testing::Message() << Name(dtype) << ToString(shape));
      int dim = int(std::max_element(shape.begin(), shape.end()) - shape.begin());
      if (shape[size_t(dim)] < 1000) dim = int(Pick(rng, 0, int64_t(shape.size()) - 1));
      Box x = RandomBox(rng, dtype, shape, -4, 4), y = PaddedBox(rng, dtype, shape);
      RunKernel(Op::kCumSum, {{"dim", dim}}, {&x}, {&y});
      Values want = x.All();
      Shape step(shape.size(), 0);
      step[size_t(dim)] = 1;
      int64_t stride = Linear(shape, step), i = 0;
      ForEachIndex(shape, [&](const Shape& index) {
        if (index[size_t(dim)] > 0) want[size_t(i)] += want[size_t(i - stride)];
        i++;
      });
      // Sums run in f64 in any order. They have at most 70001 terms of size 4 and may come near 0. The result is then
      // rounded once.
      double sum_error = 1e-10;
      ExpectClose(y, want, IsFloating(dtype) ? 1.01 * Epsilon(dtype) + sum_error : 0, dtype == DType::kF64 ? 1 : 1e-2);
    }
}

}  // namespace
}  // namespace weft::test
