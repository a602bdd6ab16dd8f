// For every op with a composition, the kernel and the composition give equal results on one rank. The composition runs
// if there is no kernel, if a dim that the kernel needs whole is sharded, and for second derivatives.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <cmath>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/compile/interpreter.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"

namespace weft {
namespace {

using test::Values;

// The tolerances, relative to the largest value of the result:
// - f64: sums of a few dozen terms.
// - f32: a few dozen roundings of 1e-7 each, amplified by exponentials.
// - bf16: the kernel and the composition each round an f32 result once. If the f32 results differ slightly, they may
//   round to neighbours, which are at most 2^-7 apart.
struct Precision {
  DType dtype;
  double tolerance;
};
constexpr Precision kPrecisions[] = {{DType::kF64, 1e-10}, {DType::kF32, 3e-5}, {DType::kBF16, 1.0 / 128}};

// If `spoilt` is an operand's number, the middle element of that operand is NaN.
void ExpectKernelIsComposition(Op op, const Sample& sample, const Precision& precision, const std::string& what,
                               int spoilt = -1, const Numerics& numerics = {}) {
  std::vector<Tensor> drawn = sweep::SampleValues(sample, 23);
  Values leaves;
  size_t outputs = 0;
  Graph graph = test::Trace([&] {
    std::vector<Var> in;
    for (size_t i = 0; i < drawn.size(); i++) {
      DType dtype = !IsFloating(drawn[i].dtype())      ? drawn[i].dtype()
                    : sample.inputs[i].accumulate_type ? AccumulateType(precision.dtype)
                                                       : precision.dtype;
      std::string name = fmt::format("in{}", i);
      std::vector<double> values = drawn[i].ToDoubles();
      if (int(i) == spoilt) values[values.size() / 2] = std::nan("");
      leaves[name] = Tensor::FromDoubles(values, dtype, drawn[i].shape());
      in.push_back(Leaf(name, dtype, drawn[i].shape()));
    }
    Outputs kernel = CurrentBuilder().Emit(op, sample.attrs, in, Loc::current());
    Outputs composition = Record(op).fallback(kernel[0].node());
    outputs = kernel.size();
    EXPECT_EQ(composition.size(), outputs) << what;
    test::Traced traced;
    for (size_t i = 0; i < outputs; i++) {
      EXPECT_EQ(kernel[i].dtype(), composition[i].dtype()) << what;
      traced.outputs.push_back({fmt::format("kernel{}", i), kernel[i]});
      traced.outputs.push_back({fmt::format("composition{}", i), composition[i]});
    }
    return traced;
  });
  Values got = test::RunOneRank(graph, {{"x"}, {1}}, leaves, {}, numerics);
  bool reached = false;
  for (size_t i = 0; i < outputs; i++) {
    const Tensor& want = got.at(fmt::format("composition{}", i));
    double scale = 1;
    for (double v : want.ToDoubles())
      if (std::isfinite(v)) scale = std::max(scale, std::abs(v));
    EXPECT_LE(test::LargestDifference(got.at(fmt::format("kernel{}", i)), want), precision.tolerance * scale)
        << what << " output " << i;
    for (double v : want.ToDoubles()) {
      reached |= std::isnan(v) || !IsFloating(want.dtype());
      EXPECT_FALSE(spoilt < 0 && std::isnan(v)) << what << " output " << i;
    }
  }
  EXPECT_TRUE(spoilt < 0 || reached) << what << ": no NaN in the result";
}

class Fallback : public testing::TestWithParam<int> {};

TEST_P(Fallback, KernelIsComposition) {
  Op op = Op(GetParam());
  if (!Record(op).fallback) return;
  std::vector<Sample> samples = Record(op).samples(op);
  for (size_t i = 0; i < samples.size(); i++)
    for (const Precision& precision : kPrecisions)
      ExpectKernelIsComposition(op, samples[i], precision,
                                fmt::format("{} sample {} {}", Name(op), i, Name(precision.dtype)));
}

std::string OpName(const testing::TestParamInfo<int>& param) { return Name(Op(param.param)); }
INSTANTIATE_TEST_SUITE_P(All, Fallback, testing::Range(0, kNumOps), OpName);

// The logits exceed what a GPU's kernel holds at a time, and no vector length divides the vocabulary.
TEST(LinearCrossEntropyFallback, ChunksOfLogits) {
  if (!test::KernelsOf(test::DeviceUnderTest({{"x"}, {1}})).Has(Op::kLinearCrossEntropyGrad))
    GTEST_SKIP() << "this device has no kernel of its own";
  constexpr int64_t kRows = 4300, kVocab = 131075, kWidth = 16;
  Sample sample{{{{kRows, kWidth}}, {{kVocab, kWidth}}, {{kRows}, Domain::kIdsOrIgnored, kVocab}},
                {{"ignore_index", -100}, {"smoothing", 0.1}}};
  const Numerics kOneGib{.logit_bytes = int64_t(1) << 30};
  ExpectKernelIsComposition(Op::kLinearCrossEntropy, sample, kPrecisions[1], "f32", -1, kOneGib);
  sample.inputs.push_back({{kRows}, Domain::kAny, 0, true});
  for (const Precision& precision : {kPrecisions[1], kPrecisions[2]})
    ExpectKernelIsComposition(Op::kLinearCrossEntropyGrad, sample, precision, Name(precision.dtype), -1, kOneGib);
}

// With a NaN in an operand, the composition keeps it, and the kernel gives NaN for the same elements. In attention and
// losses, kernels may skip a NaN of a masked key or an ignored row, so they are left out.
void ExpectKernelIsCompositionOfNaN(Op op, const Sample& sample, const std::string& what) {
  for (size_t spoilt = 0; spoilt < sample.inputs.size(); spoilt++)
    for (const Precision& precision : kPrecisions)
      ExpectKernelIsComposition(op, sample, precision,
                                fmt::format("{} {}, NaN in operand {}", what, Name(precision.dtype), spoilt),
                                int(spoilt));
}

TEST(NaNFallback, KernelIsComposition) {
  for (Op op : {Op::kArgMax, Op::kSwiGlu, Op::kSwiGluGrad, Op::kLinearSwiGluGrad, Op::kLinearGeluGrad})
    for (const Sample& sample : Record(op).samples(op)) ExpectKernelIsCompositionOfNaN(op, sample, Name(op));
  for (Sample sample : Record(Op::kLinear).samples(Op::kLinear))
    for (const char* kind : {"relu", "gelu", "gelu_exact", "silu"}) {
      sample.attrs.Set({"kind", kind});
      ExpectKernelIsCompositionOfNaN(Op::kLinear, sample, fmt::format("linear with {}", kind));
    }
}

// A negative causal offset makes rows that see no key. For such rows the composition also gives 0 and -inf. Its
// gradients, and second gradients, contain no NaN.
TEST(SdpaFallback, FullyMaskedRowsAreZeroAndMinusInfinity) {
  Sample sample{{{{2, 4, 4, 4}}, {{2, 4, 2, 4}}, {{2, 4, 2, 4}}},
                {{"causal", 1}, {"causal_offset", -2}, {"scale", 0.5}}};
  for (const Precision& precision : kPrecisions)
    ExpectKernelIsComposition(Op::kSdpa, sample, precision, Name(precision.dtype));
}

TEST(SdpaFallback, SecondDerivativesOfFullyMaskedRowsAreFinite) {
  Graph graph = test::Trace([] {
    std::vector<Var> in{Leaf("q", DType::kF64, {1, 4, 2, 4}), Leaf("k", DType::kF64, {1, 4, 2, 4}),
                        Leaf("v", DType::kF64, {1, 4, 2, 4})};
    Outputs out =
        Emit(Op::kSdpa, {{"causal", 1}, {"causal_offset", -2}, {"scale", 0.5}}, {in[0], in[1], in[2]}, Loc::current());
    std::vector<Var> first = Grad(SumAll(out[0] * out[0]), in);
    std::vector<Var> second = Grad(SumAll(first[0] * first[0]) + SumAll(first[1] * first[2]), in);
    test::Traced traced;
    for (size_t i = 0; i < 3; i++) traced.outputs.push_back({fmt::format("d{}", i), second[i]});
    return traced;
  });
  Values leaves{
      {"q", test::Draw({1, 4, 2, 4}, 1)}, {"k", test::Draw({1, 4, 2, 4}, 2)}, {"v", test::Draw({1, 4, 2, 4}, 3)}};
  for (auto& [name, value] : test::RunOneRank(graph, {{"x"}, {1}}, leaves))
    for (double v : value.ToDoubles()) ASSERT_TRUE(std::isfinite(v)) << name;
}

}  // namespace
}  // namespace weft
