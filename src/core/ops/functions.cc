#include "weft/core/ops/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "weft/core/host/rounding.h"
#include "weft/core/ir/checks.h"
#include "weft/core/ir/integer_ops.h"
#include "weft/core/ops/ops.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr int64_t kMostEmptyChunks = 1'000'000;  // other dims have at most as many chunks as elements

void CheckFloating(const Var& x, const char* what, const Loc& loc) {
  CheckAssigned(x, what, loc);
  WEFT_CHECK(IsFloating(x.dtype()), fmt::format("{} at {}: expected floats, got {}; cast the operand to a float", what,
                                                ToString(loc), ToString(x)));
}
Var Wide(const Var& x) { return Cast(x, AccumulateType(x.dtype())); }
// Returns the sum over `dim` in the accumulate type.
Var WideSum(const Var& x, int dim) { return EmitOne(Op::kReduceSum, {{"dim", dim}, {"wide", 1}}, {x}, Loc::current()); }
// Repeats a reduced value along the dim that x has.
Var Along(const Var& reduced, const Var& x, int dim) { return Broadcast(reduced, dim, x.dim(dim)); }

// The largest element as a constant, 0 where it is infinite, so that x minus it is never NaN.
Var Shift(const Var& x, int dim) {
  Var largest = StopGradient(ReduceMax(x, dim)), limit = Full(kInfinity, x.dtype(), {});
  return Select(Eq(Abs(largest), limit), Full(0, x.dtype(), {}), largest);
}

Var Banded(const Var& x, int64_t diagonal, bool lower, const char* what, const Loc& loc) {
  CheckAssigned(x, what, loc);
  int rank = x.rank();
  WEFT_CHECK(rank >= 2, fmt::format("{} at {}: expected at least two dims, got {}; unsqueeze it", what, ToString(loc),
                                    ToString(x)));
  Shape plane(x.shape().end() - 2, x.shape().end());
  Var beyond = Iota(1, DType::kI64, plane) - Iota(0, DType::kI64, plane);  // column - row
  // A diagonal further away than the corners gives the same as one just outside, and it may be no double.
  int64_t far = std::max(plane[0], plane[1]);
  Var limit = Full(double(std::clamp(diagonal, -far, far)), DType::kI64, {});
  return Select(lower ? Le(beyond, limit) : Ge(beyond, limit), x, Full(0, x.dtype(), {}));
}

}  // namespace

Var Softmax(Var x, int dim, Loc loc) {
  CheckFloating(x, "softmax", loc);
  dim = CheckedDim(x, dim, "softmax", loc);
  LineScope line(loc);
  Var e = Exp(x - Along(StopGradient(ReduceMax(x, dim)), x, dim));
  return e / Along(ReduceSum(e, dim), x, dim);
}
Var LogSoftmax(Var x, int dim, Loc loc) {
  CheckFloating(x, "log_softmax", loc);
  dim = CheckedDim(x, dim, "log_softmax", loc);
  LineScope line(loc);
  Var shifted = x - Along(StopGradient(ReduceMax(x, dim)), x, dim);
  return shifted - Along(Log(ReduceSum(Exp(shifted), dim)), x, dim);
}
// A line of -inf has the sum 0. It gives -inf, and no gradient.
Var LogSumExp(Var x, int dim, Loc loc) {
  CheckFloating(x, "logsumexp", loc);
  dim = CheckedDim(x, dim, "logsumexp", loc);
  LineScope line(loc);
  Var shift = Shift(x, dim), sum = ReduceSum(Exp(x - Along(shift, x, dim)), dim);
  Var empty = Eq(sum, Full(0, x.dtype(), {}));
  Var result = Log(Select(empty, Full(1, x.dtype(), {}), sum)) + shift;
  return Select(empty, Full(-kInfinity, x.dtype(), {}), result);
}

Var Mean(Var x, Loc loc) {
  CheckFloating(x, "mean", loc);
  LineScope line(loc);
  Var sum = Wide(x);
  while (sum.rank() > 0) sum = ReduceSum(sum, sum.rank() - 1);
  return Cast(Scale(sum, 1.0 / double(NumElements(x.shape()))), x.dtype());
}
Var Mean(Var x, int dim, Loc loc) {
  dim = CheckedDim(x, dim, "mean", loc);
  CheckFloating(x, "mean", loc);
  LineScope line(loc);
  return Cast(Scale(WideSum(x, dim), 1.0 / double(x.dim(dim))), x.dtype());
}
Var Variance(Var x, int dim, int64_t correction, Loc loc) {
  dim = CheckedDim(x, dim, "variance", loc);
  CheckFloating(x, "variance", loc);
  LineScope line(loc);
  Var wide = Wide(x), distance = wide - Along(Mean(wide, dim, loc), wide, dim);
  double count = std::max(0.0, double(x.dim(dim)) - double(correction));
  return Cast(Scale(ReduceSum(distance * distance, dim), 1.0 / count), x.dtype());
}
// The bound is applied to squares, because the derivative of a square root at 0 is infinite.
Var CosineSimilarity(Var a, Var b, int dim, double eps, Loc loc) {
  CheckFloating(a, "cosine_similarity", loc);
  CheckAssigned(b, "cosine_similarity", loc);
  LineScope line(loc);
  std::optional<Shape> common = BroadcastShape(a.shape(), b.shape());
  WEFT_CHECK(
      common,
      fmt::format(
          "cosine_similarity at {}: expected operands whose dims are equal or 1, got {} and {}; unsqueeze or slice one",
          ToString(loc), ToString(a), ToString(b)));
  DType dtype = a.dtype();
  a = Wide(BroadcastTo(a, *common, loc));
  b = Wide(BroadcastTo(b, *common, loc));
  dim = CheckedDim(a, dim, "cosine_similarity", loc);
  auto norm = [&](const Var& x) { return Sqrt(ClampMin(ReduceSum(x * x, dim), eps * eps)); };
  return Cast(ReduceSum(a * b, dim) / (norm(a) * norm(b)), dtype);
}

Var OneHot(Var ids, int64_t classes, Loc loc) {
  CheckAssigned(ids, "one_hot", loc);
  bool integer = ids.dtype() == DType::kI32 || ids.dtype() == DType::kI64;
  WEFT_CHECK(
      integer && classes > 0,
      fmt::format(
          "one_hot at {}: expected ids of i32 or i64 and at least one class, got {} and {} classes; cast the ids",
          ToString(loc), ToString(ids), classes));
  LineScope line(loc);
  int rank = ids.rank();
  Var id = Broadcast(ids, rank, classes);
  return Cast(Eq(id, Iota(rank, ids.dtype(), id.shape())), DType::kI64);
}
Var Tril(Var x, int64_t diagonal, Loc loc) {
  LineScope line(loc);
  return Banded(x, diagonal, true, "tril", loc);
}
Var Triu(Var x, int64_t diagonal, Loc loc) {
  LineScope line(loc);
  return Banded(x, diagonal, false, "triu", loc);
}

Var Where(Var condition, Var a, Var b, Loc loc) { return Select({condition, loc}, {a, loc}, {b, loc}); }
Var MaskedFill(Var x, Var mask, double value, Loc loc) {
  CheckAssigned(x, "masked_fill", loc);
  WEFT_CHECK(Holds(x.dtype(), value),
             fmt::format("masked_fill at {}: expected a value that {} holds, got {} for {}; cast the operand",
                         ToString(loc), Name(x.dtype()), value, ToString(x)));
  LineScope line(loc);
  return Select(mask, Full(value, x.dtype(), {}), x);
}
Var Clamp(Var x, std::optional<double> low, std::optional<double> high, Loc loc) {
  CheckAssigned(x, "clamp", loc);
  auto shown = [](const std::optional<double>& bound) { return bound ? fmt::format("{}", *bound) : "none"; };
  bool numbers = (low || high) && !std::isnan(low.value_or(0)) && !std::isnan(high.value_or(0));
  WEFT_CHECK(numbers,
             fmt::format(
                 "clamp at {}: expected a number as one bound of {} or as both, got {} and {}; infinity bounds nothing",
                 ToString(loc), ToString(x), shown(low), shown(high)));
  LineScope line(loc);
  bool integers = !IsFloating(x.dtype());  // no integer is infinite
  if (low && !(integers && *low == -kInfinity)) x = ClampMin(x, *low);
  if (high && !(integers && *high == kInfinity)) x = ClampMax(x, *high);
  return x;
}

Var Stack(std::span<const Var> xs, int dim, Loc loc) {
  WEFT_CHECK(!xs.empty(), fmt::format("stack at {}: expected at least one operand, got none; give the tensors to join",
                                      ToString(loc)));
  std::vector<Var> parts;
  for (const Var& x : xs) parts.push_back(Unsqueeze(x, dim, loc));
  return Concat(parts, dim, loc);
}
std::vector<Var> Chunk(Var x, int64_t chunks, int dim, Loc loc) {
  dim = CheckedDim(x, dim, "chunk", loc);
  WEFT_CHECK(chunks > 0, fmt::format("chunk at {}: expected at least one chunk, got {}; 1 keeps the dim whole",
                                     ToString(loc), chunks));
  int64_t extent = x.dim(dim), size = chunks < extent ? CeilDiv(extent, chunks) : 1;
  if (extent == 0) {
    WEFT_CHECK(chunks <= kMostEmptyChunks, fmt::format("chunk at {}: expected at most {} chunks of the empty dim {} of "
                                                       "{}, got {}; 1 keeps the dim whole",
                                                       ToString(loc), kMostEmptyChunks, dim, ToString(x), chunks));
    return std::vector<Var>(size_t(chunks), x);
  }
  std::vector<Var> parts;
  for (int64_t start = 0; start < extent; start += size)
    parts.push_back(Slice(x, dim, start, std::min(size, extent - start), loc));
  return parts;
}

}  // namespace weft
