// Structural ops and generators agree with their index maps, over shapes, paddings, dtypes and shards.
#include "harness.h"

namespace weft::test {
namespace {

using Map = std::function<int64_t(const Shape&)>;  // maps an output index to an element of x, or to -1 for a zero

void ExpectMapped(const Box& y, const Box& x, const Map& map) {
  int64_t i = 0;
  ForEachIndex(y.shape(), [&](const Shape& index) {
    int64_t from = map(index);
    ASSERT_EQ(y.Get(i), from < 0 ? 0.0 : x.Get(from)) << "element " << i << " of " << ToString(y.shape());
    i++;
  });
}

std::vector<Shape> Shapes(uint64_t seed) {
  Rng rng(seed);
  std::vector<Shape> shapes{{1}, {70}, {40, 33}, {3, 50, 40}};
  for (int i = 0; i < 25; i++) shapes.push_back(RandomShape(rng, int(Pick(rng, 1, 4))));
  return shapes;
}

class Structural : public testing::TestWithParam<DType> {
 protected:
  Rng rng{11};
  Box In(const Shape& shape) { return RandomBox(rng, GetParam(), shape, 0, 100); }
  Box Out(const Shape& shape) { return PaddedBox(rng, GetParam(), shape); }
  int AnyDim(const Shape& shape) { return int(Pick(rng, 0, int64_t(shape.size()) - 1)); }
};

TEST_P(Structural, Broadcast) {
  for (const Shape& shape : Shapes(1)) {
    int dim = int(Pick(rng, 0, int64_t(shape.size())));
    Shape wide = shape;
    wide.insert(wide.begin() + dim, Pick(rng, 0, 4));
    Box x = In(shape), y = Out(wide);
    RunKernel(Op::kBroadcast, {{"dim", dim}, {"size", wide[size_t(dim)]}}, {&x}, {&y});
    ExpectMapped(y, x, [&](Shape index) {
      index.erase(index.begin() + dim);
      return Linear(shape, index);
    });
  }
}

TEST_P(Structural, Permute) {
  for (const Shape& shape : Shapes(2)) {
    Shape perm(shape.size(), 0);
    for (size_t d = 0; d < perm.size(); d++) perm[d] = int64_t(d);
    std::shuffle(perm.begin(), perm.end(), rng);
    Shape turned;
    for (int64_t d : perm) turned.push_back(shape[size_t(d)]);
    Box x = In(shape), y = Out(turned);
    RunKernel(Op::kPermute, {{"perm", perm}}, {&x}, {&y});
    ExpectMapped(y, x, [&](const Shape& index) {
      Shape from(shape.size(), 0);
      for (size_t d = 0; d < perm.size(); d++) from[size_t(perm[d])] = index[d];
      return Linear(shape, from);
    });
  }
}

TEST_P(Structural, TransposeOfEvenExtents) {  // dense, so kernels may move two 16-bit elements at a time
  for (const Shape& shape : {Shape{130, 66}, Shape{64, 128}, Shape{8, 10}, Shape{31, 64}, Shape{3, 72, 94}}) {
    size_t last = shape.size() - 1;
    Shape perm{0, 1, 2}, turned = shape;
    perm.resize(shape.size());
    std::swap(perm[last], perm[last - 1]), std::swap(turned[last], turned[last - 1]);
    Box x(GetParam(), shape), y(GetParam(), turned);
    for (int64_t i = 0; i < x.count(); i++) x.Set(i, double(i % 251 % (GetParam() == DType::kBool ? 2 : 126)));
    RunKernel(Op::kPermute, {{"perm", perm}}, {&x}, {&y});
    ExpectMapped(y, x, [&](Shape index) {
      std::swap(index[last], index[last - 1]);
      return Linear(shape, index);
    });
  }
}

TEST_P(Structural, ReverseAndStridedSlice) {
  for (const Shape& shape : Shapes(7)) {
    int dim = AnyDim(shape);
    Box x = In(shape), y = Out(shape);
    RunKernel(Op::kReverse, {{"dim", dim}}, {&x}, {&y});
    ExpectMapped(y, x, [&](Shape index) {
      index[size_t(dim)] = shape[size_t(dim)] - 1 - index[size_t(dim)];
      return Linear(shape, index);
    });
    int64_t step = Pick(rng, 1, 4), start = Pick(rng, 0, shape[size_t(dim)]);
    Shape part = shape;
    part[size_t(dim)] = (shape[size_t(dim)] - start + step - 1) / step;
    Box z = Out(part);
    RunKernel(Op::kSlice, {{"dim", dim}, {"start", start}, {"length", part[size_t(dim)]}, {"step", step}}, {&x}, {&z});
    ExpectMapped(z, x, [&](Shape index) {
      index[size_t(dim)] = start + step * index[size_t(dim)];
      return Linear(shape, index);
    });
  }
}

TEST_P(Structural, SplitAndMerge) {
  for (const Shape& shape : Shapes(3)) {
    if (shape.size() < 2) continue;
    int dim = int(Pick(rng, 0, int64_t(shape.size()) - 2));
    Shape flat = shape;
    flat[size_t(dim)] *= flat[size_t(dim) + 1];
    flat.erase(flat.begin() + dim + 1);
    auto same = [&](const Shape& index) { return Linear(shape, index); };
    Box x = In(flat), y = Out(shape);
    RunKernel(Op::kSplit, {{"dim", dim}, {"inner", shape[size_t(dim) + 1]}}, {&x}, {&y});
    ExpectMapped(y, x, same);
    Box a = In(shape), b = Out(flat);
    RunKernel(Op::kMerge, {{"dim", dim}}, {&a}, {&b});
    ExpectMapped(b, a, [&](const Shape& index) { return Linear(flat, index); });
  }
}

TEST_P(Structural, SliceAndPad) {
  for (const Shape& shape : Shapes(4)) {
    int dim = AnyDim(shape);
    int64_t n = shape[size_t(dim)], start = Pick(rng, 0, n), length = Pick(rng, 0, n - start),
            high = n - start - length;
    Shape part = shape;
    part[size_t(dim)] = length;
    Box x = In(shape), y = Out(part);
    RunKernel(Op::kSlice, {{"dim", dim}, {"start", start}, {"length", length}}, {&x}, {&y});
    ExpectMapped(y, x, [&](Shape index) {
      index[size_t(dim)] += start;
      return Linear(shape, index);
    });
    Box a = In(part), b = Out(shape);
    RunKernel(Op::kPad, {{"dim", dim}, {"low", start}, {"high", high}}, {&a}, {&b});
    ExpectMapped(b, a, [&](Shape index) {
      int64_t i = index[size_t(dim)] -= start;
      return i < 0 || i >= length ? -1 : Linear(part, index);
    });
  }
}

TEST_P(Structural, Concat) {
  for (const Shape& shape : Shapes(5)) {
    int dim = AnyDim(shape);
    std::vector<Box> pieces;
    Shape whole = shape;
    whole[size_t(dim)] = 0;
    for (int64_t i = Pick(rng, 1, 4); i > 0; i--) {
      Shape piece = shape;
      whole[size_t(dim)] += piece[size_t(dim)] = Pick(rng, 0, 5);
      pieces.push_back(In(piece));
    }
    std::vector<const Box*> in;
    for (const Box& piece : pieces) in.push_back(&piece);
    Box y = Out(whole);
    RunKernel(Op::kConcat, {{"dim", dim}}, in, {&y});
    int64_t i = 0;
    ForEachIndex(whole, [&](Shape index) {
      size_t p = 0;
      while (index[size_t(dim)] >= pieces[p].shape()[size_t(dim)])
        index[size_t(dim)] -= pieces[p++].shape()[size_t(dim)];
      ASSERT_EQ(y.Get(i++), pieces[p].Get(Linear(pieces[p].shape(), index)));
    });
  }
}

TEST_P(Structural, ConcatOfPiecesOfOneLayout) {
  for (const Shape& shape : Shapes(7)) {
    int dim = AnyDim(shape);
    Box a(GetParam(), shape), b(GetParam(), shape);
    for (int64_t i = 0; i < a.count(); i++) a.Set(i, double(i % 2)), b.Set(i, double(i % 3 == 0));
    Shape whole = shape;
    whole[size_t(dim)] *= 2;
    for (bool turned : {false, true}) {  // either operand may come first in memory
      Box y = Out(whole);
      const Box &low = turned ? b : a, &high = turned ? a : b;
      RunKernel(Op::kConcat, {{"dim", dim}}, {&low, &high}, {&y});
      int64_t i = 0, half = shape[size_t(dim)];
      ForEachIndex(whole, [&](Shape index) {
        const Box& from = index[size_t(dim)] < half ? low : high;
        index[size_t(dim)] %= half;
        ASSERT_EQ(y.Get(i++), from.Get(Linear(shape, index)));
      });
    }
  }
}

// A GPU copies up to 480 in one launch.
TEST_P(Structural, ConcatOfSingleElements) {
  for (int64_t count : {1, 2, 7, 479, 480, 481, 1000}) {
    Shape shape(size_t(Pick(rng, 1, 3)), 1), whole = shape;
    int dim = AnyDim(shape);
    whole[size_t(dim)] = count;
    std::vector<Box> pieces;
    for (int64_t i = 0; i < count; i++) pieces.push_back(In(shape));
    std::vector<const Box*> in;
    for (const Box& piece : pieces) in.push_back(&piece);
    Box y = Out(whole);
    RunKernel(Op::kConcat, {{"dim", dim}}, in, {&y});
    for (int64_t i = 0; i < count; i++) ASSERT_EQ(y.Get(i), pieces[size_t(i)].Get(0)) << i << " of " << count;
  }
}

TEST_P(Structural, Full) {
  for (const Shape& shape : Shapes(6)) {
    Box y = Out(shape);
    RunKernel(Op::kFull, {{"value", 1.0}}, {}, {&y});
    for (double v : y.All()) ASSERT_EQ(v, 1.0);
  }
}
INSTANTIATE_TEST_SUITE_P(Types, Structural, testing::ValuesIn(AllTypes()),
                         [](const auto& test) { return std::string(Name(test.param)); });

TEST(Sharded, SplitAndMergePassAShardOfTheOuterDim) {
  // [10, 4] with rows in chunks of 3: rank 2 holds rows 6..8, and rank 3 holds row 9 in a chunk of capacity 3.
  for (int64_t rank = 0; rank < 4; rank++) {
    int64_t first = rank * 3, extent = std::min<int64_t>(3, 10 - first);
    Box flat(DType::kF32, {extent * 4}, {12 - extent * 4}, {first * 4}, {40}),
        split(DType::kF32, {extent, 4}, {3 - extent, 0}, {first, 0}, {10, 4});
    for (int64_t i = 0; i < flat.count(); i++) flat.Set(i, double(first * 4 + i));
    RunKernel(Op::kSplit, {{"dim", 0}, {"inner", 4}}, {&flat}, {&split});
    EXPECT_EQ(split.All(), flat.All());
    Box merged(DType::kF32, {extent * 4}, {12 - extent * 4}, {first * 4}, {40});
    RunKernel(Op::kMerge, {{"dim", 0}}, {&split}, {&merged});
    EXPECT_EQ(merged.All(), flat.All());
  }
}

TEST(Sharded, IotaCountsGlobally) {
  for (DType dtype : {DType::kI64, DType::kI32})
    for (int dim = 0; dim < 3; dim++) {
      Box y(dtype, {2, 3, 5}, {1, 0, 2}, {4, 6, 10}, {9, 12, 15});
      RunKernel(Op::kIota, {{"dim", dim}}, {}, {&y});
      int64_t i = 0;
      ForEachIndex({2, 3, 5}, [&](const Shape& index) {
        EXPECT_EQ(y.Get(i++), double(index[size_t(dim)] + y.view.dim(dim).offset));
      });
    }
}

}  // namespace
}  // namespace weft::test
