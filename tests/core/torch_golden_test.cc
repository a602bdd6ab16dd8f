// Ops and functions have PyTorch's values and gradients: cases of tests/golden/.torch, made by
// tests/interop/torch_golden.py.
#include "core/torch_golden.h"

#include <gtest/gtest.h>

#include "share.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

using test::GoldenCase;
using test::GoldenFunction;
using test::Vars;

Reduction ReductionOf(const GoldenCase& c) {
  std::string name = c.attrs.at("reduction");
  return name == "none" ? Reduction::kNone : name == "mean" ? Reduction::kMean : Reduction::kSum;
}
Vars Both(const Sorted& sorted) { return {sorted.values, sorted.indices}; }
std::optional<double> Bound(const GoldenCase& c, const char* name) {
  if (c.attrs.at(name).is_null()) return std::nullopt;
  return c.Float(name);
}

#define WEFT_CASE(name, expression)                                                                \
  {                                                                                                \
#name, []([[maybe_unused]] const GoldenCase& c, const Vars& in) -> Vars { return expression; } \
  }
const test::GoldenFunctions kFunctions{
    WEFT_CASE(gather, (Vars{Gather(in[0], in[1], c.Int("dim"))})),
    WEFT_CASE(scatter, (Vars{Scatter(in[0], in[1], in[2], c.Int("dim"))})),
    WEFT_CASE(scatter_add, (Vars{ScatterAdd(in[0], in[1], in[2], c.Int("dim"))})),
    WEFT_CASE(dynamic_slice, (Vars{DynamicSlice(in[0], in[1], c.Int("dim"), c.Int("length"))})),
    WEFT_CASE(dynamic_update, (Vars{DynamicUpdate(in[0], in[1], in[2], c.Int("dim"))})),
    WEFT_CASE(slice, (Vars{StridedSlice(in[0], c.Int("dim"), c.Int("start"), c.Int("length"), c.Int("step"))})),
    WEFT_CASE(reverse, (Vars{Reverse(in[0], c.Int("dim"))})),
    WEFT_CASE(sort, Both(Sort(in[0], c.Int("dim"), c.attrs.at("descending")))),
    WEFT_CASE(top_k, Both(TopK(in[0], c.Int("k"), c.Int("dim")))),
    WEFT_CASE(cum_max, Both(CumMax(in[0], c.Int("dim")))),
    WEFT_CASE(floor, (Vars{Floor(in[0])})),
    WEFT_CASE(ceil, (Vars{Ceil(in[0])})),
    WEFT_CASE(round, (Vars{Round(in[0])})),
    WEFT_CASE(trunc, (Vars{Trunc(in[0])})),
    WEFT_CASE(expm1, (Vars{Expm1(in[0])})),
    WEFT_CASE(log1p, (Vars{Log1p(in[0])})),
    WEFT_CASE(remainder, (Vars{Remainder(in[0], in[1])})),
    WEFT_CASE(floor_divide, (Vars{FloorDivide(in[0], in[1])})),
    WEFT_CASE(clamp, (Vars{Clamp(in[0], Bound(c, "low"), Bound(c, "high"))})),
    WEFT_CASE(add, (Vars{in[0] + in[1]})),
    WEFT_CASE(sub, (Vars{in[0] - in[1]})),
    WEFT_CASE(mul, (Vars{in[0] * in[1]})),
    WEFT_CASE(div, (Vars{in[0] / in[1]})),
    WEFT_CASE(maximum, (Vars{Maximum(in[0], in[1])})),
    WEFT_CASE(less, (Vars{in[0] < in[1]})),
    WEFT_CASE(where, (Vars{Where(in[0], in[1], in[2])})),
    WEFT_CASE(softmax, (Vars{Softmax(in[0], c.Int("dim"))})),
    WEFT_CASE(log_softmax, (Vars{LogSoftmax(in[0], c.Int("dim"))})),
    WEFT_CASE(logsumexp, (Vars{LogSumExp(in[0], c.Int("dim"))})),
    WEFT_CASE(mean, (Vars{Mean(in[0], c.Int("dim"))})),
    WEFT_CASE(mean_all, (Vars{Mean(in[0])})),
    WEFT_CASE(var, (Vars{Variance(in[0], c.Int("dim"), c.Int("correction"))})),
    WEFT_CASE(cosine_similarity, (Vars{CosineSimilarity(in[0], in[1], c.Int("dim"), c.Float("eps"))})),
    WEFT_CASE(one_hot, (Vars{OneHot(in[0], c.Int("classes"))})),
    WEFT_CASE(tril, (Vars{Tril(in[0], c.Int("diagonal"))})),
    WEFT_CASE(triu, (Vars{Triu(in[0], c.Int("diagonal"))})),
    WEFT_CASE(stack, (Vars{Stack(in, c.Int("dim"))})),
    WEFT_CASE(chunk, Chunk(in[0], c.Int("chunks"), c.Int("dim"))),
    WEFT_CASE(masked_fill, (Vars{MaskedFill(in[0], in[1], c.Float("value"))})),
    WEFT_CASE(squeeze, (Vars{Squeeze(in[0], c.Int("dim"))})),
    WEFT_CASE(unsqueeze, (Vars{Unsqueeze(in[0], c.Int("dim"))})),
    WEFT_CASE(mse_loss, (Vars{MseLoss(in[0], in[1], ReductionOf(c))})),
    WEFT_CASE(l1_loss, (Vars{L1Loss(in[0], in[1], ReductionOf(c))})),
    WEFT_CASE(smooth_l1_loss, (Vars{SmoothL1Loss(in[0], in[1], c.Float("beta"), ReductionOf(c))})),
    WEFT_CASE(huber_loss, (Vars{HuberLoss(in[0], in[1], c.Float("delta"), ReductionOf(c))})),
    WEFT_CASE(bce_with_logits, (Vars{BceWithLogitsLoss(in[0], in[1], ReductionOf(c), in.size() > 2 ? in[2] : Var())})),
    WEFT_CASE(nll_loss,
              (Vars{NllLoss(in[0], in[1], ReductionOf(c), in.size() > 2 ? in[2] : Var(), c.Int("ignore_index"))})),
    WEFT_CASE(kl_div, (Vars{KlDivLoss(in[0], in[1], ReductionOf(c), c.attrs.at("log_target"))})),
};
#undef WEFT_CASE

const std::vector<GoldenCase>& Cases() {
  static const std::vector<GoldenCase> cases = test::ReadGolden("ops.jsonl");
  return cases;
}

using Replay = void (*)(const GoldenCase&, const GoldenFunction&);
// Replays every nth case.
void ReplayAll(Replay replay, size_t nth) {
  size_t ran = 0;
  for (size_t i = 0; i < Cases().size(); i += nth, ran++) {
    const GoldenCase& c = Cases()[i];
    SCOPED_TRACE(testing::Message() << "line " << c.line << ": " << c.op << " " << c.attrs.dump());
    auto fn = kFunctions.find(c.op);
    ASSERT_NE(fn, kFunctions.end());
    try {
      replay(c, fn->second);
    } catch (const std::exception& error) {
      FAIL() << error.what();  // with the case; what threw says nothing of it
    }
  }
  fmt::print("shown: {} cases of PyTorch's\n", ran);
}

TEST(TorchGolden, CoversEachFunction) {
  std::map<std::string, int> seen;
  for (const GoldenCase& c : Cases()) seen[c.op]++;
  EXPECT_EQ(seen.size(), kFunctions.size());
  EXPECT_GE(Cases().size(), 400u);
}
TEST(TorchGolden, Eager) { ReplayAll(test::ExpectEager, size_t(test::Share())); }
TEST(TorchGolden, Traced) { ReplayAll(test::ExpectTraced, size_t(test::Share())); }
TEST(TorchGolden, OnTwoByTwoRanks) { ReplayAll(test::ExpectOnMesh, size_t(test::Share())); }

}  // namespace
}  // namespace weft
