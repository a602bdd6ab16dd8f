// Sort, TopK and CumMax agree with a stable sort and a loop, over dtypes, shapes and paddings, with ties and NaN.
#include <numeric>

#include "harness.h"

namespace weft::test {
namespace {

const std::vector<Shape> kShapes{{1}, {0, 3}, {5, 7}, {3, 64, 2}, {1500}, {2, 2049}, {4, 1, 3}, {70, 33}};

class SortKernels : public testing::TestWithParam<DType> {
 protected:
  Rng rng{101};
  DType dtype = GetParam();

  // Few distinct values, so that many are equal; of floats some are NaN, infinite or -0.
  Box In(const Shape& shape) {
    Box x = PaddedBox(rng, dtype, shape);
    for (int64_t i = 0; i < x.count(); i++) {
      int64_t draw = Pick(rng, 0, 19);
      double value = dtype == DType::kBool ? double(draw % 2)
                     : dtype == DType::kU8 ? double(draw)
                     : !IsFloating(dtype)  ? double(draw - 10)
                     : draw == 0           ? NAN
                     : draw == 1           ? -INFINITY
                     : draw == 2           ? -0.0
                                           : double(draw - 10) / 4;
      x.Set(i, value);
    }
    return x;
  }
  static bool Less(double a, double b) { return a < b || (std::isnan(b) && !std::isnan(a)); }

  // Calls fn(line): the numbers of the elements of each line of `dim`, in order.
  template <class Fn>
  static void ForEachLine(const Shape& shape, int dim, Fn&& fn) {
    Shape first = shape;
    first[size_t(dim)] = std::min<int64_t>(first[size_t(dim)], 1);
    ForEachIndex(first, [&](Shape index) {
      std::vector<int64_t> line;
      for (int64_t i = 0; i < shape[size_t(dim)]; i++) {
        index[size_t(dim)] = i;
        line.push_back(Linear(shape, index));
      }
      fn(line, index);
    });
  }

  // Checks values and indices of the first `kept` elements of each sorted line.
  void ExpectSorted(const Box& x, int dim, int64_t kept, bool descending, const Box& values, const Box& indices) {
    ForEachLine(x.shape(), dim, [&](const std::vector<int64_t>& line, Shape index) {
      std::vector<int64_t> order(line.size());
      std::iota(order.begin(), order.end(), 0);
      std::stable_sort(order.begin(), order.end(), [&](int64_t a, int64_t b) {
        double u = x.Get(line[size_t(a)]), v = x.Get(line[size_t(b)]);
        return descending ? Less(v, u) : Less(u, v);
      });
      for (int64_t i = 0; i < kept; i++) {
        index[size_t(dim)] = i;
        int64_t at = Linear(values.shape(), index), from = order[size_t(i)];
        double want = x.Get(line[size_t(from)]), got = values.Get(at);
        ASSERT_EQ(indices.Get(at), double(from)) << ToString(x.shape()) << " dim " << dim << " place " << i;
        ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)));
        ASSERT_EQ(std::signbit(got), std::signbit(want)) << "-0 stays -0";
      }
    });
  }
};

TEST_P(SortKernels, SortIsStableInBothDirections) {
  for (const Shape& shape : kShapes)
    for (int dim = 0; dim < int(shape.size()); dim++)
      for (bool descending : {false, true}) {
        Box x = In(shape), values = PaddedBox(rng, dtype, shape), indices = PaddedBox(rng, DType::kI64, shape);
        RunKernel(Op::kSort, {{"dim", dim}, {"descending", descending}}, {&x}, {&values, &indices}, 1 + dim % 2);
        ExpectSorted(x, dim, shape[size_t(dim)], descending, values, indices);
      }
}

TEST_P(SortKernels, TopKTakesTheFirstOfEqualElements) {
  for (const Shape& shape : kShapes)
    for (int dim = 0; dim < int(shape.size()); dim++)
      for (int64_t k : {int64_t(0), std::min<int64_t>(shape[size_t(dim)], 3), shape[size_t(dim)]}) {
        Shape kept = shape;
        kept[size_t(dim)] = k;
        Box x = In(shape), values = PaddedBox(rng, dtype, kept), indices = PaddedBox(rng, DType::kI64, kept);
        RunKernel(Op::kTopK, {{"dim", dim}, {"length", k}}, {&x}, {&values, &indices}, 1 + dim % 2);
        ExpectSorted(x, dim, k, true, values, indices);
      }
}

TEST_P(SortKernels, CumMaxTakesTheLastOfEqualElements) {
  for (const Shape& shape : kShapes)
    for (int dim = 0; dim < int(shape.size()); dim++) {
      Box x = In(shape), values = PaddedBox(rng, dtype, shape), indices = PaddedBox(rng, DType::kI64, shape);
      RunKernel(Op::kCumMax, {{"dim", dim}}, {&x}, {&values, &indices}, 1 + dim % 2);
      ForEachLine(shape, dim, [&](const std::vector<int64_t>& line, const Shape&) {
        size_t best = 0;
        for (size_t i = 0; i < line.size(); i++) {
          if (!Less(x.Get(line[i]), x.Get(line[best]))) best = i;
          double want = x.Get(line[best]), got = values.Get(line[i]);
          ASSERT_EQ(indices.Get(line[i]), double(best)) << ToString(shape) << " dim " << dim << " element " << i;
          ASSERT_TRUE(got == want || (std::isnan(got) && std::isnan(want)));
        }
      });
    }
}

INSTANTIATE_TEST_SUITE_P(Types, SortKernels, testing::ValuesIn(AllTypes()),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace weft::test
