// Kernel rows with in_place give the same bits if each output uses the memory of the input with the same number.
#include "harness.h"

namespace weft::test {
namespace {

// Runs `op` with separate outputs, and again with its first `shared` outputs in the memory of its inputs. Compares all
// outputs.
void ExpectSameInPlace(Op op, const Attrs& attrs, const std::vector<Box>& in, const std::vector<Box>& out,
                       size_t shared) {
  // Other devices need not support in_place for an op; the CPU must.
  if (KindUnderTest() != DeviceKind::kCpu && !Table().Row(op).in_place) return;
  ASSERT_TRUE(Table().Row(op).in_place) << Name(op);
  for (int threads : {1, 2}) {
    std::vector<Box> apart = out, inputs = in, outputs = out;
    std::vector<const Box*> from, from_shared;
    std::vector<Box*> to, to_shared;
    for (const Box& box : in) from.push_back(&box);
    for (Box& box : apart) to.push_back(&box);
    for (Box& box : inputs) from_shared.push_back(&box);
    for (size_t i = 0; i < out.size(); i++) to_shared.push_back(i < shared ? &inputs[i] : &outputs[i]);
    RunKernel(op, attrs, from, to, threads);
    RunKernel(op, attrs, from_shared, to_shared, threads);
    for (size_t i = 0; i < out.size(); i++) EXPECT_EQ(to_shared[i]->All(), to[i]->All()) << Name(op) << " output " << i;
  }
}

class InPlace : public testing::TestWithParam<DType> {
 protected:
  Rng rng{111};
  DType dtype = GetParam(), wide = AccumulateType(GetParam());
  Box In(const Shape& shape) {
    Box box(dtype, shape);
    for (int64_t i = 0; i < box.count(); i++) box.Set(i, std::normal_distribution<double>()(rng));
    return box;
  }
  Box Out(const Shape& shape) { return Box(dtype, shape); }
  Box Wide(const Shape& shape, double value = 0) {
    Box box(wide, shape);
    for (int64_t i = 0; i < box.count(); i++) box.Set(i, value);
    return box;
  }
};

TEST_P(InPlace, Norms) {
  Attrs eps{{"eps", 1e-5}};
  Shape x{90, 90}, c{90};
  // With as many rows as columns, statistics can use the memory of weights, and dbias that of a statistic.
  for (size_t shared : {1, 2, 3}) {
    Box w = RandomBox(rng, wide, c), mean = Wide(c, 0.1), rstd = Wide(c, 0.7);
    ExpectSameInPlace(Op::kRmsNorm, eps, {In(x), w}, {Out(x), Wide(c)}, shared);
    ExpectSameInPlace(Op::kRmsNormGrad, eps, {In(x), w, rstd, In(x)}, {Out(x), Wide(c)}, shared);
    ExpectSameInPlace(Op::kLayerNorm, eps, {In(x), w, w}, {Out(x), Wide(c), Wide(c)}, shared);
    ExpectSameInPlace(Op::kLayerNormGrad, eps, {In(x), w, mean, rstd, In(x)}, {Out(x), Wide(c), Wide(c)}, shared);
  }
}

TEST_P(InPlace, CrossEntropyGrad) {
  Box targets(DType::kI64, {70});
  for (int64_t i = 0; i < 70; i++) targets.Set(i, double(i % 33));
  ExpectSameInPlace(Op::kCrossEntropyGrad, {{"ignore_index", 3}, {"smoothing", 0.1}},
                    {In({70, 33}), targets, Wide({70}, 4), Wide({70}, 0.3)}, {Out({70, 33})}, 1);
}

TEST_P(InPlace, Attention) {
  Attrs attrs{{"causal", 1}, {"causal_offset", 0}, {"scale", 0.0}};
  Shape q{2, 70, 4, 24}, k{2, 70, 2, 24}, rows{2, 70, 4};
  ExpectSameInPlace(Op::kSdpa, attrs, {In(q), In(k), In(k)}, {Out(q), Wide(rows)}, 1);
  ExpectSameInPlace(Op::kSdpaGrad, attrs, {In(q), In(k), In(k), In(q), Wide(rows, 5), In(q)}, {Out(q), Out(k), Out(k)},
                    3);
  ExpectSameInPlace(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 0}}, {In(q)}, {Out(q)}, 1);
  ExpectSameInPlace(Op::kRope, {{"theta", 10000.0}, {"inverse", 0}, {"start", 0}, {"rotated", 6}}, {In(q)}, {Out(q)},
                    1);
}

TEST_P(InPlace, Dropout) {
  Box step(DType::kI64, {}), first(DType::kI64, {});
  step.Set(0, 1);
  first.Set(0, 0);
  for (double p : {0.0, 0.4})
    ExpectSameInPlace(Op::kDropout, {{"p", p}, {"key", 5}}, {In({30, 70}), step, first}, {Out({30, 70})}, 1);
}

INSTANTIATE_TEST_SUITE_P(Types, InPlace, testing::ValuesIn(Floats()),
                         [](const auto& test) { return std::string(Name(test.param)); });

}  // namespace
}  // namespace weft::test
