// Refusals of attention and of rotary embedding.
#include <limits>

#include "refusals/refusals.h"

namespace weft::test {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity(), kNaN = std::numeric_limits<double>::quiet_NaN();

// Attention of 3 queries in 4 heads to 5 keys in 2 heads, in a batch of 2.
void Attend(const SdpaOptions& options, Loc loc = Loc::current()) {
  Sdpa(F32({2, 3, 4, 8}), F32({2, 5, 2, 8}), F32({2, 5, 2, 8}), options, loc);
}
void Rotate(const Shape& x, const RopeOptions& options, Loc loc = Loc::current()) { Rope(F32(x), options, loc); }

}  // namespace

// One line per call.
// clang-format off
std::vector<Refusal> AttentionRefusals() {
  return {
      {"sdpa", "an empty query", {}, [] { Sdpa(Var(), F32({2, 5, 2, 8}), F32({2, 5, 2, 8}), {}); }},
      {"sdpa", "no heads", {"f32 [2, 3, 8]", "f32 [2, 5, 2, 8]"}, [] { Sdpa(F32({2, 3, 8}), F32({2, 5, 2, 8}), F32({2, 5, 2, 8}), {}); }},
      {"sdpa", "values without heads", {"f32 [2, 5, 8]"}, [] { Sdpa(F32({2, 3, 4, 8}), F32({2, 5, 2, 8}), F32({2, 5, 8}), {}); }},
      {"sdpa", "heads that key-value heads do not divide", {"6 heads", "4 key"}, [] { Sdpa(F32({2, 3, 6, 8}), F32({2, 5, 4, 8}), F32({2, 5, 4, 8}), {}); }},
      {"sdpa", "head sizes that differ", {"f32 [2, 3, 4, 8]", "f32 [2, 5, 2, 6]"}, [] { Sdpa(F32({2, 3, 4, 8}), F32({2, 5, 2, 6}), F32({2, 5, 2, 8}), {}); }},
      {"sdpa", "batches that differ", {"f32 [1, 3, 4, 8]"}, [] { Sdpa(F32({1, 3, 4, 8}), F32({2, 5, 2, 8}), F32({2, 5, 2, 8}), {}); }},
      {"sdpa", "keys without values", {"f32 [2, 4, 2, 8]"}, [] { Sdpa(F32({2, 3, 4, 8}), F32({2, 5, 2, 8}), F32({2, 4, 2, 8}), {}); }},
      {"sdpa", "heads of keys and values that differ", {"f32 [2, 5, 1, 8]"}, [] { Sdpa(F32({2, 3, 4, 8}), F32({2, 5, 2, 8}), F32({2, 5, 1, 8}), {}); }},
      {"sdpa", "a mix of dtypes", {"f32", "bf16 [2, 5, 2, 8]"}, [] { Sdpa(F32({2, 3, 4, 8}), BF16({2, 5, 2, 8}), BF16({2, 5, 2, 8}), {}); }},
      {"sdpa", "integers", {"i64 [2, 3, 4, 8]"}, [] { Sdpa(I64({2, 3, 4, 8}), I64({2, 5, 2, 8}), I64({2, 5, 2, 8}), {}); }},
      {"sdpa", "a mask of floats", {"f32 [2, 4, 3, 5]", "bool [2, 4, 3, 5]"}, [] { Attend({.mask = AttendMask(F32({2, 4, 3, 5}))}); }},
      {"sdpa", "a mask of integers", {"i64 [1, 1, 3, 5]"}, [] { Attend({.mask = AttendMask(I64({1, 1, 3, 5}))}); }},
      {"sdpa", "a mask with its dims swapped", {"bool [2, 4, 5, 3]"}, [] { Attend({.mask = AttendMask(Bool({2, 4, 5, 3}))}); }},
      {"sdpa", "a mask of two dims", {"bool [3, 5]"}, [] { Attend({.mask = AttendMask(Bool({3, 5}))}); }},
      {"sdpa", "a mask with one key", {"bool [2, 4, 3, 1]"}, [] { Attend({.mask = AttendMask(Bool({2, 4, 3, 1}))}); }},
      {"sdpa", "an ignore mask of another batch", {"bool [3, 1, 3, 5]"}, [] { Attend({.mask = IgnoreMask(Bool({3, 1, 3, 5})).Attend()}); }},
      {"sdpa", "a boolean bias", {"bool [1, 4, 3, 5]"}, [] { Attend({.bias = Bool({1, 4, 3, 5})}); }},
      {"sdpa", "a bias of another dtype", {"bf16 [1, 4, 3, 5]"}, [] { Attend({.bias = BF16({1, 4, 3, 5})}); }},
      {"sdpa", "a bias per key-value head", {"f32 [2, 2, 3, 5]"}, [] { Attend({.bias = F32({2, 2, 3, 5})}); }},
      {"sdpa", "a negative window", {"-2"}, [] { Attend({.left = -2}); }},
      {"sdpa", "a negative window to the right", {"-7"}, [] { Attend({.causal = false, .right = -7}); }},
      {"sdpa", "a causal mask and keys to the right", {"2"}, [] { Attend({.right = 2}); }},
      {"sdpa", "a negative soft cap", {"-30"}, [] { Attend({.softcap = -30}); }},
      {"sdpa", "an infinite soft cap", {"inf"}, [] { Attend({.softcap = kInfinity}); }},
      {"sdpa", "an infinite scale", {"inf"}, [] { Attend({.scale = kInfinity}); }},
      {"sdpa", "a scale that is no number", {"nan"}, [] { Attend({.scale = kNaN}); }},
      {"sdpa", "a dropout of all", {"1"}, [] { Attend({.dropout = 1}); }},
      {"sdpa", "a negative dropout", {"-0.1"}, [] { Attend({.dropout = -0.1}); }},
      {"sdpa", "sinks per key-value head", {"f32 [4]", "f32 [2]"}, [] { Attend({.sinks = F32({2})}); }},
      {"sdpa", "sinks of another dtype", {"bf16 [4]"}, [] { Attend({.sinks = BF16({4})}); }},
      {"sdpa", "an offset for all sequences", {"i64 [2]", "i64 []"}, [] { Attend({.offsets = I64({})}); }},
      {"sdpa", "offsets of floats", {"f32 [2]"}, [] { Attend({.offsets = F32({2})}); }},
      {"sdpa", "segments of queries only", {"query_segments"}, [] { Attend({.query_segments = I64({2, 3})}); }},
      {"sdpa", "segments of keys only", {"key_segments"}, [] { Attend({.key_segments = I64({2, 5})}); }},
      {"sdpa", "query segments as long as the keys", {"i64 [2, 3]", "i64 [2, 5]"}, [] { Attend({.query_segments = I64({2, 5}), .key_segments = I64({2, 5})}); }},
      {"sdpa", "key segments as long as the queries", {"i64 [2, 5]", "i64 [2, 3]"}, [] { Attend({.query_segments = I64({2, 3}), .key_segments = I64({2, 3})}); }},
      {"sdpa", "segments of floats", {"f32 [2, 3]"}, [] { Attend({.query_segments = F32({2, 3}), .key_segments = I64({2, 5})}); }},
      {"sdpa", "key segments of another batch, with lengths", {"i64 [3, 5]"}, [] { Attend({.query_segments = I64({2, 3}), .key_segments = I64({3, 5}), .lengths = I64({2})}); }},
      {"sdpa", "lengths of another batch", {"i64 [2]", "i64 [3]"}, [] { Attend({.lengths = I64({3})}); }},
      {"sdpa", "lengths of floats", {"f32 [2]"}, [] { Attend({.lengths = F32({2})}); }},
      {"rope", "an empty operand", {}, [] { Rope(Var(), {}); }},
      {"rope", "no heads", {"f32 [2, 3, 8]"}, [] { Rotate({2, 3, 8}, {}); }},
      {"rope", "no heads, and a part rotated", {"f32 [2, 3]"}, [] { Rotate({2, 3}, {.rotated = 2}); }},
      {"rope", "an odd number of rotated dims", {"f32 [2, 3, 4, 8]", "3"}, [] { Rotate({2, 3, 4, 8}, {.rotated = 3}); }},
      {"rope", "more rotated dims than there are", {"10"}, [] { Rotate({2, 3, 4, 8}, {.rotated = 10}); }},
      {"rope", "an odd head size", {"f32 [2, 3, 4, 7]"}, [] { Rotate({2, 3, 4, 7}, {}); }},
      {"rope", "a negative theta", {"-1"}, [] { Rotate({2, 3, 4, 8}, {.theta = -1}); }},
      {"rope", "a scaling without a factor", {"0"}, [] { Rotate({2, 3, 4, 8}, {.scaling = {.factor = 0}}); }},
      {"rope", "offsets of another batch", {"i64 [3]"}, [] { Rotate({2, 3, 4, 8}, {.offsets = I64({3})}); }},
  };
}
// clang-format on

}  // namespace weft::test
