#include "weft/core/ops/functions.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "weft/core/ops/ops.h"

namespace weft {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

void CheckFloating(const Var& x, const char* what, const Loc& loc) {
  WEFT_CHECK(IsFloating(x.dtype()), fmt::format("{} at {}: expected floats, got {} {}", what, ToString(loc),
                                                Name(x.dtype()), ToString(x.shape())));
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
  int rank = x.rank();
  WEFT_CHECK(rank >= 2,
             fmt::format("{} at {}: expected at least two dims, got {}", what, ToString(loc), ToString(x.shape())));
  Shape plane(x.shape().end() - 2, x.shape().end());
  Var beyond = Iota(1, DType::kI64, plane) - Iota(0, DType::kI64, plane);  // column - row
  Var limit = Full(double(diagonal), DType::kI64, {});
  return Select(lower ? Le(beyond, limit) : Ge(beyond, limit), x, Full(0, x.dtype(), {}));
}

}  // namespace

Var Softmax(Var x, int dim, Loc loc) {
  dim = NormalizeDim(dim, x.rank(), "softmax");
  LineScope line(loc);
  Var e = Exp(x - Along(StopGradient(ReduceMax(x, dim)), x, dim));
  return e / Along(ReduceSum(e, dim), x, dim);
}
Var LogSoftmax(Var x, int dim, Loc loc) {
  dim = NormalizeDim(dim, x.rank(), "log_softmax");
  LineScope line(loc);
  Var shifted = x - Along(StopGradient(ReduceMax(x, dim)), x, dim);
  return shifted - Along(Log(ReduceSum(Exp(shifted), dim)), x, dim);
}
// A line of -inf has the sum 0. It gives -inf, and no gradient.
Var LogSumExp(Var x, int dim, Loc loc) {
  dim = NormalizeDim(dim, x.rank(), "logsumexp");
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
  dim = NormalizeDim(dim, x.rank(), "mean");
  CheckFloating(x, "mean", loc);
  LineScope line(loc);
  return Cast(Scale(WideSum(x, dim), 1.0 / double(x.dim(dim))), x.dtype());
}
Var Variance(Var x, int dim, int64_t correction, Loc loc) {
  dim = NormalizeDim(dim, x.rank(), "variance");
  CheckFloating(x, "variance", loc);
  LineScope line(loc);
  Var wide = Wide(x), distance = wide - Along(Mean(wide, dim, loc), wide, dim);
  double count = double(std::max<int64_t>(0, x.dim(dim) - correction));
  return Cast(Scale(ReduceSum(distance * distance, dim), 1.0 / count), x.dtype());
}
// The bound is applied to squares, because the derivative of a square root at 0 is infinite.
Var CosineSimilarity(Var a, Var b, int dim, double eps, Loc loc) {
  CheckFloating(a, "cosine_similarity", loc);
  LineScope line(loc);
  std::optional<Shape> common = BroadcastShape(a.shape(), b.shape());
  WEFT_CHECK(common, fmt::format("cosine_similarity at {}: {} and {} do not broadcast", ToString(loc),
                                 ToString(a.shape()), ToString(b.shape())));
  DType dtype = a.dtype();
  dim = NormalizeDim(dim, int64_t(common->size()), "cosine_similarity");
  a = Wide(BroadcastTo(a, *common, loc));
  b = Wide(BroadcastTo(b, *common, loc));
  auto norm = [&](const Var& x) { return Sqrt(ClampMin(ReduceSum(x * x, dim), eps * eps)); };
  return Cast(ReduceSum(a * b, dim) / (norm(a) * norm(b)), dtype);
}

Var OneHot(Var ids, int64_t classes, Loc loc) {
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
  LineScope line(loc);
  return Select(mask, Full(value, x.dtype(), {}), x);
}
Var Clamp(Var x, std::optional<double> low, std::optional<double> high, Loc loc) {
  LineScope line(loc);
  if (low) x = ClampMin(x, *low);
  if (high) x = ClampMax(x, *high);
  return x;
}

Var Stack(std::span<const Var> xs, int dim, Loc loc) {
  WEFT_CHECK(!xs.empty(), fmt::format("stack at {}: expected at least one operand", ToString(loc)));
  std::vector<Var> parts;
  for (const Var& x : xs) parts.push_back(Unsqueeze(x, dim, loc));
  return Concat(parts, dim, loc);
}
std::vector<Var> Chunk(Var x, int64_t chunks, int dim, Loc loc) {
  dim = NormalizeDim(dim, x.rank(), "chunk");
  WEFT_CHECK(chunks > 0, fmt::format("chunk at {}: expected at least one chunk, got {}", ToString(loc), chunks));
  int64_t extent = x.dim(dim), size = std::max<int64_t>(1, (extent + chunks - 1) / chunks);
  if (extent == 0) return std::vector<Var>(size_t(chunks), x);
  std::vector<Var> parts;
  for (int64_t start = 0; start < extent; start += size)
    parts.push_back(Slice(x, dim, start, std::min(size, extent - start), loc));
  return parts;
}

}  // namespace weft
