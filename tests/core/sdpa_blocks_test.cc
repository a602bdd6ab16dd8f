// Derivatives of attention that have no kernel are derived a block of queries at a time. They equal those of the whole
// composition, and their memory is linear in the sequence length.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "parallel/sweep.h"
#include "parallel/testing.h"
#include "weft/core/compile/plan.h"
#include "weft/core/ir/builder.h"
#include "weft/core/ops/ops.h"
#include "weft/core/transforms/grad.h"
#include "weft/core/transforms/partition.h"

namespace weft {
namespace {

constexpr DType kF64 = DType::kF64;
constexpr int64_t kLength = 150;  // a block of 128 queries and a part of one

// Attention's options, and the operands that they name.
struct Options {
  const char* name;
  Attrs attrs;
  std::vector<SampleInput> further{};
};
std::vector<Options> AllOptions() {
  auto attrs = [](bool causal, std::initializer_list<Attrs::Item> more = {}) {
    Attrs all{{"causal", causal}, {"causal_offset", 0}, {"scale", 0.5}};
    for (const Attrs::Item& item : more) all.Set(item);
    return all;
  };
  const SampleInput scalar{{}, Domain::kIds, 3};
  return {
      {"causal", attrs(true)},
      {"window and soft cap", attrs(false, {{"left", 20}, {"right", 3}, {"softcap", 1.5}})},
      {"bias and sinks", attrs(true, {{"bias", 1}, {"sinks", 1}}), {{{1, 2, kLength, kLength}}, {{2}}}},
      {"bias of all queries", attrs(false, {{"bias", 1}}), {{{1, 1, 1, kLength}}}},
      {"mask", attrs(false, {{"mask", 1}}), {{{1, 1, kLength, kLength}, Domain::kBool}}},
      {"segments", attrs(false, {{"segments", 1}}), {{{1, kLength}, Domain::kIds, 2}, {{1, kLength}, Domain::kIds, 2}}},
      {"dropout", attrs(false, {{"p", 0.4}, {"key", int64_t(0x1234567)}}), {scalar, scalar}},
  };
}

// Returns the second derivatives of a loss for q, k, v and further floating operands.
std::vector<Var> SecondDerivatives(const Var& of, const std::vector<Var>& wrt) {
  std::vector<Var> first = Grad(of, wrt);
  Var loss = SumAll(Sin(first[0]));
  for (size_t i = 1; i < first.size(); i++) loss = loss + SumAll(Sin(first[i]));
  return Grad(loss, wrt);
}

TEST(SdpaBlocks, SecondDerivativesAreThoseOfTheWholeComposition) {
  for (const Options& options : AllOptions()) {
    Sample sample{{{{1, kLength, 2, 2}}, {{1, kLength, 1, 2}}, {{1, kLength, 1, 2}}}, options.attrs};
    sample.inputs.insert(sample.inputs.end(), options.further.begin(), options.further.end());
    std::vector<Tensor> values = sweep::SampleValues(sample, 31);
    test::Values leaves;
    size_t count = 0;
    Graph graph = test::Trace([&] {
      std::vector<Var> in, wrt;
      for (size_t i = 0; i < values.size(); i++) {
        std::string name = fmt::format("in{}", i);
        leaves[name] = values[i];
        in.push_back(Leaf(name, values[i].dtype(), values[i].shape()));
        if (values[i].dtype() == kF64) wrt.push_back(in.back());
      }
      count = wrt.size();
      Outputs out = CurrentBuilder().Emit(Op::kSdpa, sample.attrs, in, Loc::current());
      auto loss = [](const Outputs& y) { return SumAll(Sin(y[0])) + SumAll(Sin(y[1])); };
      std::vector<Var> blocks = SecondDerivatives(loss(out), wrt);
      std::vector<Var> whole = SecondDerivatives(loss(Record(Op::kSdpa).fallback(out[0].node())), wrt);
      test::Traced traced;
      for (size_t i = 0; i < count; i++) {
        traced.outputs.push_back({fmt::format("blocks{}", i), blocks[i]});
        traced.outputs.push_back({fmt::format("whole{}", i), whole[i]});
      }
      return traced;
    });
    test::Values got = test::RunOneRank(graph, {{"x"}, {1}}, leaves);
    for (size_t i = 0; i < count; i++) {
      const Tensor& want = got.at(fmt::format("whole{}", i));
      double largest = 1;
      for (double v : want.ToDoubles()) largest = std::max(largest, std::abs(v));
      // Sums of a few hundred terms in another order.
      EXPECT_LE(test::LargestDifference(got.at(fmt::format("blocks{}", i)), want), 1e-11 * largest)
          << options.name << ", operand " << i;
    }
  }
}

// Returns the arena in bytes of second derivatives of causal attention over `length` tokens. A loss of lse too would
// keep the composition of its first derivative.
double ArenaBytes(int64_t length) {
  Graph graph = test::Trace([&] {
    std::vector<Var> in{Leaf("q", DType::kF32, {1, length, 2, 8}), Leaf("k", DType::kF32, {1, length, 2, 8}),
                        Leaf("v", DType::kF32, {1, length, 2, 8})};
    Outputs out =
        Emit(Op::kSdpa, {{"causal", 1}, {"causal_offset", 0}, {"scale", 0.5}}, {in[0], in[1], in[2]}, Loc::current());
    std::vector<Var> second = SecondDerivatives(SumAll(Sin(out[0])), in);
    test::Traced traced;
    for (size_t i = 0; i < second.size(); i++) traced.outputs.push_back({fmt::format("d{}", i), second[i]});
    return traced;
  });
  size_t bytes = 0;
  test::OnRanks({{"x"}, {1}},
                [&](const Runtime& runtime) { bytes = MakePlan(Partition(graph, {}), runtime).arena_bytes; });
  return double(bytes);
}

TEST(SdpaBlocks, MemoryOfSecondDerivativesIsLinear) {
  double last = ArenaBytes(1024);
  for (int64_t length : {2048, 4096, 8192}) {
    double bytes = ArenaBytes(length);
    EXPECT_LE(bytes, 2.1 * last) << length;
    last = bytes;
  }
}

}  // namespace
}  // namespace weft
