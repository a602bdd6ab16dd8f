// The values of Random and Dropout depend only on the global index (core/base/rng.h), whatever part of the tensor a
// rank holds.
#include "harness.h"
#include "weft/core/base/rng.h"

namespace weft::test {
namespace {

constexpr uint64_t kKey = 0x9123456789abcdefu;
constexpr int64_t kStep = 12, kFirstRow = 6;

Box Scalar(int64_t value) {
  Box box(DType::kI64, {});
  box.Set(0, double(value));
  return box;
}

// Returns the random bits of every element of a whole tensor: 32 or 16 bits per element.
template <class Word>
std::vector<Word> Bits(const Shape& shape) {
  constexpr int64_t n = 16 / sizeof(Word);  // elements per Philox block
  std::vector<Word> bits;
  int64_t last = shape.empty() ? 1 : shape.back(), rows_per_element = 1;
  for (size_t d = 1; d + 1 < shape.size(); d++) rows_per_element *= shape[d];
  int64_t first = shape.size() < 2 ? 0 : kFirstRow * rows_per_element;
  for (int64_t i = 0; i < NumElements(shape); i++) {
    uint64_t row = uint64_t(first + i / last), column = uint64_t(i % last);
    auto block = Philox(kKey, kStep, row * uint64_t((last + n - 1) / n) + column / n);
    uint64_t bit = column % n * 8 * sizeof(Word);
    bits.push_back(Word(block[bit / 32] >> bit % 32));
  }
  return bits;
}

const std::vector<Shape>& Shapes() {
  static const std::vector<Shape> list{{},        {1},          {6},      {2000},    {3, 5},    {4, 8},
                                       {2, 3, 7}, {3, 2, 4, 9}, {70, 33}, {2, 1025}, {300, 64}, {9000}};
  return list;
}

// Returns a random sub-box, as a rank could hold it.
Box Part(Rng& rng, DType dtype, const Shape& shape) {
  Shape extents, offsets;
  for (int64_t n : shape) {
    offsets.push_back(Pick(rng, 0, n - 1));
    extents.push_back(Pick(rng, 0, n - offsets.back()));
  }
  return Box(dtype, extents, RandomPadding(rng, shape.size()), offsets, shape);
}
template <class Fn>
void ForEachHeld(const Box& part, const Shape& shape, Fn&& fn) {
  int64_t i = 0;
  ForEachIndex(part.shape(), [&](Shape index) {
    for (size_t d = 0; d < index.size(); d++) index[d] += part.view.dim(int(d)).offset;
    fn(i++, size_t(Linear(shape, index)));
  });
}

TEST(Random, FollowsTheGlobalIndex) {
  Rng rng(71);
  Box step = Scalar(kStep), first_row = Scalar(kFirstRow);
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes())
      for (const char* kind : {"uniform", "normal"})
        for (int cut = 0; cut < 6; cut++) {
          auto bits = Bits<uint32_t>(shape);
          Box y = cut ? Part(rng, dtype, shape) : Box(dtype, shape);
          RunKernel(Op::kRandom, {{"kind", kind}, {"key", int64_t(kKey)}}, {&step, &first_row}, {&y}, cut % 3 + 1);
          Box want(dtype, {});
          ForEachHeld(y, shape, [&](int64_t i, size_t global) {
            want.Set(0, kind[0] == 'n' ? NormalFromBits(bits[global]) : UniformFromBits(bits[global]));
            ASSERT_EQ(y.Get(i), want.Get(0)) << ToString(shape) << " element " << i;
          });
        }
}

TEST(Dropout, FollowsTheGlobalIndex) {
  Rng rng(72);
  Box step = Scalar(kStep), first_row = Scalar(kFirstRow);
  for (DType dtype : Floats())
    for (const Shape& shape : Shapes())
      for (double p : {0.0, 0.1, 0.5, 1.0})
        for (int cut = 0; cut < 4; cut++) {
          auto bits = Bits<uint16_t>(shape);
          Box y = cut ? Part(rng, dtype, shape) : Box(dtype, shape), x = RandomBox(rng, dtype, y.shape());
          RunKernel(Op::kDropout, {{"p", p}, {"key", int64_t(kKey)}}, {&x, &step, &first_row}, {&y}, cut % 3 + 1);
          Values want;
          ForEachHeld(y, shape, [&](int64_t i, size_t global) {
            want.push_back(bits[global] >= DropoutThreshold(p) ? x.Get(i) * DropoutScale(p) : 0);
          });
          ExpectClose(y, want, Tolerance(dtype, 1), 0);
        }
}

// Shards whose rows are whole Philox blocks with gaps between them. Kernels may use vector loads and stores, but must
// not treat the shard as one contiguous run.
TEST(Dropout, FollowsTheGlobalIndexInAlignedShards) {
  Rng rng(73);
  Box step = Scalar(kStep), first_row = Scalar(kFirstRow);
  for (DType dtype : Floats())
    for (const Shape& extents : std::vector<Shape>{{5, 16}, {61, 24}}) {
      const Shape shape{70, 40};
      auto bits = Bits<uint16_t>(shape);
      Box y(dtype, extents, {0, 8}, {1, 8}, shape), x(dtype, extents, {0, 16}, {1, 8}, shape);
      x.SetAll(RandomBox(rng, dtype, extents).All());
      RunKernel(Op::kDropout, {{"p", 0.3}, {"key", int64_t(kKey)}}, {&x, &step, &first_row}, {&y});
      Values want;
      ForEachHeld(y, shape, [&](int64_t i, size_t global) {
        want.push_back(bits[global] >= DropoutThreshold(0.3) ? x.Get(i) * DropoutScale(0.3) : 0);
      });
      ExpectClose(y, want, Tolerance(dtype, 1), 0);
    }
}

}  // namespace
}  // namespace weft::test
