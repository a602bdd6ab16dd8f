// Refusals of the other ops, and of functions and losses.
#include <limits>

#include "refusals/refusals.h"

namespace weft::test {
namespace {
constexpr int64_t kMost = std::numeric_limits<int64_t>::max();
constexpr double kNaN = std::numeric_limits<double>::quiet_NaN();

// One line per call.
// clang-format off
const std::vector<Refusal> kRefusals = {
    {"gather", "an empty operand", {}, [] { Gather(Var(), I64({3, 2}), 1); }},
    {"gather", "an index of floats", {"f32 [3, 2]"}, [] { Gather(F32({3, 4}), F32({3, 2}), 1); }},
    {"gather", "an index of other rows", {"f32 [3, 4]", "i64 [2, 4]"}, [] { Gather(F32({3, 4}), I64({2, 4}), 1); }},
    {"gather", "an index of fewer dims", {"i64 [3]"}, [] { Gather(F32({3, 4}), I64({3}), 1); }},
    {"gather", "a dim that is not there", {"f32 [3, 4]", "[-2, 2)", "2"}, [] { Gather(F32({3, 4}), I64({3, 2}), 2); }},
    {"scatter", "elements of another dtype", {"f32 [3, 4]", "bf16 [3, 2]"}, [] { Scatter(F32({3, 4}), I64({3, 2}), BF16({3, 2}), 1); }},
    {"scatter", "elements of another shape than the index", {"f32 [3, 2]", "f32 [3, 3]"}, [] { Scatter(F32({3, 4}), I64({3, 2}), F32({3, 3}), 1); }},
    {"scatter_add", "an index of bools", {"bool [3, 2]"}, [] { ScatterAdd(F32({3, 4}), Bool({3, 2}), F32({3, 2}), 1); }},
    {"scatter_add", "a dim that is not there", {"-3"}, [] { ScatterAdd(F32({3, 4}), I64({3, 2}), F32({3, 2}), -3); }},
    {"dynamic_slice", "a window longer than the dim", {"f32 [3, 4]", "5"}, [] { DynamicSlice(F32({3, 4}), I64({}), 1, 5); }},
    {"dynamic_slice", "a window of less than nothing", {"-1"}, [] { DynamicSlice(F32({3, 4}), I64({}), 1, -1); }},
    {"dynamic_slice", "a start of floats", {"f32 []"}, [] { DynamicSlice(F32({3, 4}), F32({}), 1, 2); }},
    {"dynamic_slice", "more starts than rows", {"i64 [3, 4]"}, [] { DynamicSlice(F32({3, 4}), I64({3, 4}), 1, 2); }},
    {"dynamic_update", "an update of another dtype", {"f32 [3, 4]", "bf16 [3, 1]"}, [] { DynamicUpdate(F32({3, 4}), BF16({3, 1}), I64({}), 1); }},
    {"dynamic_update", "an update of other rows", {"f32 [2, 1]"}, [] { DynamicUpdate(F32({3, 4}), F32({2, 1}), I64({}), 1); }},
    {"dynamic_update", "an update longer than the dim", {"5"}, [] { DynamicUpdate(F32({3, 4}), F32({3, 5}), I64({}), 1); }},
    {"top_k", "more elements than there are", {"f32 [3, 4]", "[0, 4]", "5"}, [] { TopK(F32({3, 4}), 5, 1); }},
    {"top_k", "less than no elements", {"-1"}, [] { TopK(F32({3, 4}), -1, 1); }},
    {"sort", "a dim that is not there", {"f32 [3, 4]", "4"}, [] { Sort(F32({3, 4}), 4); }},
    {"sort", "a scalar", {"f32 []"}, [] { Sort(F32({}), 0); }},
    {"cum_max", "a dim that is not there", {"-3"}, [] { CumMax(F32({3, 4}), -3); }},
    {"clamp", "no bound", {"f32 [3]", "none"}, [] { Clamp(F32({3}), {}, {}); }},
    {"clamp", "a bound that is no number", {"nan"}, [] { Clamp(F32({3}), kNaN, 1); }},
    {"slice", "a window past the end", {"f32 [3, 4]", "2", "3"}, [] { Slice(F32({3, 4}), 1, 2, 3); }},
    {"slice", "a negative start", {"-1"}, [] { Slice(F32({3, 4}), 1, -1, 2); }},
    {"slice", "a step of 0", {"0"}, [] { StridedSlice(F32({3, 4}), 1, 0, 2, 0); }},
    {"slice", "steps past the end", {"3 apart"}, [] { StridedSlice(F32({3, 4}), 1, 0, 3, 3); }},
    {"slice", "more elements than 64 bits can count", {"9223372036854775807"}, [] { Slice(F32({3, 4}), 1, 2, kMost); }},
    {"slice", "steps over all elements", {"4611686018427387904 apart"}, [] { StridedSlice(F32({3, 4}), 1, 0, 3, kMost / 2 + 1); }},
    {"reverse", "a dim that is not there", {"2"}, [] { Reverse(F32({3, 4}), 2); }},
    {"permute", "a dim twice", {"f32 [3, 4]", "[0, 0]"}, [] { Permute(F32({3, 4}), {0, 0}); }},
    {"permute", "a dim too few", {"[1]"}, [] { Permute(F32({3, 4}), {1}); }},
    {"broadcast", "a negative size", {"f32 [3]", "-2"}, [] { Broadcast(F32({3}), 0, -2); }},
    {"broadcast", "dims that do not broadcast", {"[2, 4]", "f32 [3]"}, [] { BroadcastTo(F32({3}), {2, 4}); }},
    {"split", "pieces of another size", {"f32 [3, 4]", "3"}, [] { Split(F32({3, 4}), 1, 3); }},
    {"merge", "the last dim", {"f32 [3, 4]", "1"}, [] { Merge(F32({3, 4}), 1); }},
    {"squeeze", "a dim of more than one", {"f32 [3, 4]"}, [] { Squeeze(F32({3, 4}), 0); }},
    {"unsqueeze", "a place that is not there", {"[-3, 3)", "3"}, [] { Unsqueeze(F32({3, 4}), 3); }},
    {"pad", "less than nothing", {"f32 [3, 4]", "-1"}, [] { Pad(F32({3, 4}), 1, 2, -1); }},
    {"pad", "more than a tensor can have", {"f32 [3, 4]", "9223372036854775807", "1e+17"}, [] { Pad(F32({3, 4}), 1, kMost, 1); }},
    {"concat", "more than a tensor can have", {"1e+17"}, [] { Concat(std::vector(300, F32({int64_t{1} << 55})), 0); }},
    {"concat", "nothing", {}, [] { Concat({}, 0); }},
    {"concat", "dtypes that differ", {"f32 [3, 4]", "i64 [3, 4]"}, [] { Concat(std::vector{F32({3, 4}), I64({3, 4})}, 0); }},
    {"concat", "widths that differ", {"f32 [3, 5]", "operand 1"}, [] { Concat(std::vector{F32({3, 4}), F32({3, 5})}, 0); }},
    {"stack", "nothing", {}, [] { Stack({}, 0); }},
    {"chunk", "no chunks", {"0"}, [] { Chunk(F32({4}), 0); }},
    {"chunk", "many chunks of nothing", {"9223372036854775807"}, [] { Chunk(F32({0}), kMost); }},
    {"add", "dims that do not broadcast", {"f32 [3, 4]", "f32 [3]"}, [] { F32({3, 4}) + F32({3}); }},
    {"add", "dtypes that differ", {"f32 [3]", "bf16 [3]"}, [] { F32({3}) + BF16({3}); }},
    {"exp", "integers", {"i64 [3]"}, [] { Exp(I64({3})); }},
    {"div", "integers", {"i64 [3]"}, [] { I64({3}) / I64({3}); }},
    {"and", "integers", {"i64 [3]"}, [] { And(I64({3}), I64({3})); }},
    {"select", "a condition of numbers", {"bool [3]", "f32 [3]"}, [] { Select(F32({3}), F32({3}), F32({3})); }},
    {"exp", "an empty operand", {}, [] { Exp(Var()); }},
    {"cast", "an empty operand", {}, [] { Cast(Var(), DType::kF32); }},
    {"div", "an empty operand", {}, [] { Var() / 2.0; }},
    {"einsum", "no equation", {"f32 [3, 4]", "\"ab\""}, [] { Einsum("ab", F32({3, 4}), F32({4, 5})); }},
    {"einsum", "extents that differ", {"f32 [3, 4]", "f32 [5, 6]", "'b'"}, [] { Einsum("ab,bc->ac", F32({3, 4}), F32({5, 6})); }},
    {"einsum", "a label in one operand only", {"'b'"}, [] { Einsum("ab,ac->ac", F32({3, 4}), F32({3, 5})); }},
    {"einsum", "too few dims", {"f32 [3, 4]", "3 dims"}, [] { Einsum("abd,bc->adc", F32({3, 4}), F32({4, 5})); }},
    {"einsum", "integers", {"i64 [3, 4]"}, [] { Einsum("ab,bc->ac", I64({3, 4}), I64({4, 5})); }},
    {"embedding", "ids of floats", {"f32 [2, 3]"}, [] { Embedding(F32({9, 4}), F32({2, 3})); }},
    {"embedding", "a table of one dim", {"f32 [9]"}, [] { Embedding(F32({9}), I64({2, 3})); }},
    {"one_hot", "ids of floats", {"f32 [3]"}, [] { OneHot(F32({3}), 4); }},
    {"one_hot", "no classes", {"0 classes"}, [] { OneHot(I64({3}), 0); }},
    {"tril", "a vector", {"f32 [3]"}, [] { Tril(F32({3})); }},
    {"scale", "a fraction of integers", {"i64 [3]", "0.5"}, [] { I64({3}) * 0.5; }},
    {"add_scalar", "integers and a fraction", {"i64 [3]", "-0.5"}, [] { I64({3}) - 0.5; }},
    {"clamp_max", "integers and a fraction", {"i64 [3]", "1.5"}, [] { Clamp(I64({3}), 0, 1.5); }},
    {"softmax", "integers", {"i64 [3, 4]"}, [] { Softmax(I64({3, 4}), 1); }},
    {"softmax", "a dim that is not there", {"f32 [3, 4]", "2"}, [] { Softmax(F32({3, 4}), 2); }},
    {"reduce_sum", "a dim that is not there", {"f32 [3, 4]", "2"}, [] { ReduceSum(F32({3, 4}), 2); }},
    {"mean", "integers", {"i64 [3, 4]"}, [] { Mean(I64({3, 4}), 1); }},
    {"cosine_similarity", "dims that do not broadcast", {"f32 [3, 4]", "f32 [3, 5]"}, [] { CosineSimilarity(F32({3, 4}), F32({3, 5})); }},
    {"layer_norm", "a weight of another width", {"f32 [2, 4]", "f32 [3]"}, [] { LayerNorm(F32({2, 4}), F32({3}), F32({4}), 1e-5); }},
    {"rms_norm", "a weight of 16 bits", {"bf16 [4]"}, [] { RmsNorm(BF16({2, 4}), BF16({4}), 1e-5); }},
    {"dropout", "a probability above 1", {"f32 [3]", "1.5"}, [] { Dropout(F32({3}), 1.5); }},
    {"cross_entropy", "targets of floats", {"f32 [2, 9]", "f32 [2]"}, [] { CrossEntropy(F32({2, 9}), F32({2})); }},
    {"cross_entropy", "targets with classes", {"i64 [2, 9]"}, [] { CrossEntropy(F32({2, 9}), I64({2, 9})); }},
    {"cross_entropy", "targets of bools", {"bool [2]"}, [] { CrossEntropy(F32({2, 9}), Bool({2})); }},
    {"cross_entropy", "all of the target smoothed away", {"1"}, [] { CrossEntropy(F32({2, 9}), I64({2}), {.smoothing = 1}); }},
    {"nll_loss", "targets with classes", {"f32 [2, 9]", "i64 [2, 9]"}, [] { NllLoss(F32({2, 9}), I64({2, 9})); }},
    {"huber_loss", "a delta of 0", {"0"}, [] { HuberLoss(F32({3}), F32({3}), 0); }},
    {"full", "a negative extent", {"[2, -1]"}, [] { Full(1, DType::kF32, {2, -1}); }},
    {"full", "more elements than a tensor can have", {"[4294967296, 4294967296]", "1e+17"}, [] { Full(1, DType::kF32, {int64_t{1} << 32, int64_t{1} << 32}); }},
    {"full", "too many dims", {"[1, 1, 1, 1, 1, 1, 1, 1, 1]", "8 dims"}, [] { Full(1, DType::kF32, Shape(9, 1)); }},
    {"iota", "floats", {"f32"}, [] { Iota(0, DType::kF32, {3}); }},
    {"iota", "a dim that is not there", {"[3]", "1"}, [] { Iota(1, DType::kI64, {3}); }},
};
// clang-format on

}  // namespace

std::vector<Refusal> OpRefusals() { return kRefusals; }

}  // namespace weft::test
