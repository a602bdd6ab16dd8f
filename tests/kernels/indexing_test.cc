// Gather, Scatter, ScatterAdd, DynamicSlice and DynamicUpdate agree with loops over their elements, over dtypes,
// shapes, paddings, broadcasts and shards of the dim that is indexed.
#include "harness.h"
#include "share.h"

namespace weft::test {
namespace {

// x has these extents. The rank holds `held` elements of `dim`, from `offset` on.
struct Case {
  Shape shape;
  int dim;
  int64_t ids, held, offset;
};
// Lines of up to 256 ids and longer ones take different kernels on a GPU.
const std::vector<Case> kCases{{{7}, 0, 5, 7, 0},          {{5, 3}, 0, 0, 5, 0},           {{4, 6}, 1, 9, 2, 3},
                               {{3, 5, 4}, 1, 7, 5, 0},    {{3, 5, 4}, 2, 1, 0, 4},        {{2, 3, 65}, 2, 40, 33, 32},
                               {{3000}, 0, 5000, 3000, 0}, {{2, 900, 3}, 1, 700, 400, 300}};

class Indexing : public testing::TestWithParam<DType> {
 protected:
  Rng rng{91};
  DType dtype = GetParam();

  // The part of a tensor that this rank holds.
  Box Part(const Case& c) {
    Shape extents = c.shape, offsets(c.shape.size(), 0);
    extents[size_t(c.dim)] = c.held;
    offsets[size_t(c.dim)] = c.offset;
    Box box(dtype, extents, RandomPadding(rng, extents.size()), offsets, c.shape);
    for (int64_t i = 0; i < box.count(); i++) box.Set(i, double(Pick(rng, 0, dtype == DType::kBool ? 1 : 100)));
    return box;
  }
  Shape IdShape(const Case& c) {
    Shape shape = c.shape;
    shape[size_t(c.dim)] = c.ids;
    return shape;
  }
  // Ids of both types. Some lie outside x, and in half of the cases some dims are broadcast.
  Box Ids(const Case& c) {
    Box ids = PaddedBox(rng, Pick(rng, 0, 1) ? DType::kI64 : DType::kI32, IdShape(c));
    for (int64_t i = 0; i < ids.count(); i++) ids.Set(i, double(Pick(rng, -1, c.shape[size_t(c.dim)])));
    for (int d = 0; d < ids.view.rank; d++)
      if (ids.view.dim(d).extent > 0 && Pick(rng, 0, 3) == 0) ids.view.dims[size_t(d)].stride = 0;
    return ids;
  }
  // Calls fn(i, at) for each id i whose element this rank holds; `at` is the element's number in the part.
  template <class Fn>
  void ForEachHeld(const Case& c, const Box& ids, const Box& part, Fn&& fn) {
    int64_t i = 0;
    ForEachIndex(IdShape(c), [&](Shape index) {
      int64_t place = int64_t(ids.Get(i)) - c.offset;
      if (place >= 0 && place < c.held) {
        index[size_t(c.dim)] = place;
        fn(i, Linear(part.shape(), index));
      }
      i++;
    });
  }
};

TEST_P(Indexing, Gather) {
  for (const Case& c : kCases)
    for (int threads : {1, 2}) {
      Box x = Part(c), ids = Ids(c), y = PaddedBox(rng, dtype, IdShape(c));
      RunKernel(Op::kGather, {{"dim", c.dim}}, {&x, &ids}, {&y}, threads);
      Values want(size_t(y.count()), 0.0);
      ForEachHeld(c, ids, x, [&](int64_t i, int64_t at) { want[size_t(i)] = x.Get(at); });
      EXPECT_EQ(y.All(), want) << ToString(c.shape);
    }
}

TEST_P(Indexing, ScatterKeepsTheLast) {
  for (const Case& c : kCases)
    for (int threads : {1, 2}) {
      Box x = Part(c), ids = Ids(c), src = RandomBox(rng, dtype, IdShape(c), 0, 100), y = x;
      RunKernel(Op::kScatter, {{"dim", c.dim}}, {&x, &ids, &src}, {&y}, threads);
      Values want = x.All();
      ForEachHeld(c, ids, x, [&](int64_t i, int64_t at) { want[size_t(at)] = src.Get(i); });
      EXPECT_EQ(y.All(), want) << ToString(c.shape);
      RunKernel(Op::kScatter, {{"dim", c.dim}}, {&x, &ids, &src}, {&x}, threads);
      EXPECT_EQ(x.All(), want) << "in place";
    }
}

// All terms are small whole numbers, so sums in a wide type are exact and each result is rounded once.
TEST_P(Indexing, ScatterAddRoundsOnce) {
  for (const Case& c : kCases)
    for (int threads : {1, 2}) {
      Box x = Part(c), ids = Ids(c), src = RandomBox(rng, dtype, IdShape(c), 0, 3), y = x, want(dtype, x.shape());
      for (int64_t i = 0; i < src.count(); i++) src.Set(i, double(i % 3));
      Values sums = x.All();
      ForEachHeld(c, ids, x, [&](int64_t i, int64_t at) { sums[size_t(at)] += src.Get(i); });
      for (double& sum : sums) sum = dtype == DType::kU8 ? double(uint8_t(int64_t(sum))) : sum;
      want.SetAll(sums);
      RunKernel(Op::kScatterAdd, {{"dim", c.dim}}, {&x, &ids, &src}, {&y}, threads);
      EXPECT_EQ(y.All(), want.All()) << ToString(c.shape);
      RunKernel(Op::kScatterAdd, {{"dim", c.dim}}, {&x, &ids, &src}, {&x}, threads);
      EXPECT_EQ(x.All(), want.All()) << "in place";
    }
}

struct WindowCase {
  Shape shape;
  int dim, starts;  // `starts` is the rank of the start
  int64_t length, held, offset;
};
const std::vector<WindowCase> kWindows{
    {{7}, 0, 0, 3, 7, 0},          {{9, 4}, 0, 0, 5, 4, 3},          {{3, 6, 2}, 1, 1, 2, 6, 0},
    {{2, 3, 8}, 2, 2, 8, 8, 0},    {{4, 50, 2, 64}, 1, 1, 1, 50, 0}, {{4, 50, 2, 64}, 1, 1, 7, 20, 20},
    {{2, 5, 3, 6}, 2, 1, 0, 3, 0}, {{2, 30, 24}, 1, 0, 11, 0, 30}};

class Windows : public Indexing {
 protected:
  Box Starts(const WindowCase& c) {
    Shape shape(c.shape.begin(), c.shape.begin() + c.starts);
    Box starts = PaddedBox(rng, Pick(rng, 0, 1) ? DType::kI64 : DType::kI32, shape);
    for (int64_t i = 0; i < starts.count(); i++) starts.Set(i, double(Pick(rng, -2, c.shape[size_t(c.dim)] + 1)));
    return starts;
  }
  Shape WindowShape(const WindowCase& c) {
    Shape shape = c.shape;
    shape[size_t(c.dim)] = c.length;
    return shape;
  }
  // Calls fn(i, at) for each element i of the windows that this rank holds; `at` is its number in the part.
  template <class Fn>
  void ForEachHeld(const WindowCase& c, const Box& starts, const Box& part, Fn&& fn) {
    Shape lead(c.shape.begin(), c.shape.begin() + c.starts);
    int64_t i = 0;
    ForEachIndex(WindowShape(c), [&](Shape index) {
      int64_t start = int64_t(starts.Get(Linear(lead, Shape(index.begin(), index.begin() + c.starts))));
      start = std::clamp<int64_t>(start, 0, c.shape[size_t(c.dim)] - c.length);
      index[size_t(c.dim)] += start - c.offset;
      if (index[size_t(c.dim)] >= 0 && index[size_t(c.dim)] < c.held) fn(i, Linear(part.shape(), index));
      i++;
    });
  }
};

TEST_P(Windows, DynamicSliceClampsItsStart) {
  for (const WindowCase& c : kWindows) {
    Box x = Part({c.shape, c.dim, 0, c.held, c.offset}), starts = Starts(c), y = PaddedBox(rng, dtype, WindowShape(c));
    RunKernel(Op::kDynamicSlice, {{"dim", c.dim}, {"length", c.length}}, {&x, &starts}, {&y});
    Values want(size_t(y.count()), 0.0);
    ForEachHeld(c, starts, x, [&](int64_t i, int64_t at) { want[size_t(i)] = x.Get(at); });
    EXPECT_EQ(y.All(), want) << ToString(c.shape);
  }
}

TEST_P(Windows, DynamicUpdateWritesTheWindowOnly) {
  for (const WindowCase& c : kWindows)
    for (bool dense : {false, true}) {
      Box x = Part({c.shape, c.dim, 0, c.held, c.offset}), starts = Starts(c);
      Box update = dense ? Box(dtype, WindowShape(c)) : PaddedBox(rng, dtype, WindowShape(c)), y = x;
      for (int64_t i = 0; i < update.count(); i++) update.Set(i, double(i % 2));
      RunKernel(Op::kDynamicUpdate, {{"dim", c.dim}}, {&x, &update, &starts}, {&y});
      Values want = x.All();
      ForEachHeld(c, starts, x, [&](int64_t i, int64_t at) { want[size_t(at)] = update.Get(i); });
      EXPECT_EQ(y.All(), want) << ToString(c.shape);
      RunKernel(Op::kDynamicUpdate, {{"dim", c.dim}}, {&x, &update, &starts}, {&x});
      EXPECT_EQ(x.All(), want) << "in place";
    }
}

// Updates of equal layouts, as those of keys and values, and others, run together.
TEST_P(Windows, UpdatesRunTogetherAsOneByOne) {
  for (const WindowCase& c : kWindows) {
    std::vector<Box> x, update, starts;
    std::vector<Values> want;
    for (int i = 0; i < 11; i++) {
      x.push_back(Part({c.shape, c.dim, 0, c.held, c.offset}));
      starts.push_back(Starts(c));
      update.push_back(i % 3 < 2 ? Box(dtype, WindowShape(c)) : PaddedBox(rng, dtype, WindowShape(c)));
      for (int64_t e = 0; e < update.back().count(); e++) update.back().Set(e, double((e + i) % 2));
      want.push_back(x.back().All());
      ForEachHeld(c, starts.back(), x.back(),
                  [&](int64_t e, int64_t at) { want.back()[size_t(at)] = update.back().Get(e); });
    }
    std::vector<Job> jobs;
    for (size_t i = 0; i < x.size(); i++) jobs.push_back({{{"dim", c.dim}}, {&x[i], &update[i], &starts[i]}, {&x[i]}});
    RunMany(Op::kDynamicUpdate, jobs);
    for (size_t i = 0; i < x.size(); i++) EXPECT_EQ(x[i].All(), want[i]) << ToString(c.shape) << " " << i;
  }
}

std::string TypeName(const testing::TestParamInfo<DType>& info) { return Name(info.param); }
INSTANTIATE_TEST_SUITE_P(Types, Indexing, testing::ValuesIn(AllTypes()), TypeName);
INSTANTIATE_TEST_SUITE_P(Types, Windows, testing::ValuesIn(AllTypes()), TypeName);

}  // namespace
}  // namespace weft::test
