// Reductions over one dim, ArgMax, CumSum and SumOfSquares. Sums and products of f32 run in f64, so that the way in
// which terms are spread over ranks changes at most the last rounding.
#include "weft/core/ops/reduce.h"

#include <cmath>
#include <limits>

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that a piece reads
constexpr int64_t kLanes = 16;

enum class Kind { kSum, kMax, kMin, kProd };

template <Kind kind, class A>
A Identity() {
  using Limits = std::numeric_limits<A>;
  if constexpr (kind == Kind::kSum)
    return A(0);
  else if constexpr (kind == Kind::kProd)
    return A(1);
  else if constexpr (kind == Kind::kMax)
    return Limits::has_infinity ? -Limits::infinity() : Limits::lowest();
  else
    return Limits::has_infinity ? Limits::infinity() : Limits::max();
}

// NaN propagates: max and min take a NaN and then keep it.
template <Kind kind, class A>
A Join(A sum, A x) {
  if constexpr (kind == Kind::kSum)
    return sum + x;
  else if constexpr (kind == Kind::kProd)
    return sum * x;
  else if constexpr (kind == Kind::kMax)
    return x > sum || x != x ? x : sum;
  else
    return x < sum || x != x ? x : sum;
}

// The type of the running value. It is wider than C only if rounding errors would accumulate.
template <Kind kind, class C>
using Running = std::conditional_t<std::is_same_v<C, float> && (kind == Kind::kSum || kind == Kind::kProd), double, C>;

template <Kind kind, class C, class A>
A JoinRow(const C* x, int64_t n, A start) {
  A lanes[kLanes];
  for (A& lane : lanes) lane = Identity<kind, A>();
  int64_t i = 0;
  for (; i + kLanes <= n; i += kLanes)
    for (int64_t j = 0; j < kLanes; j++) lanes[j] = Join<kind>(lanes[j], A(x[i + j]));
  for (; i < n; i++) lanes[i % kLanes] = Join<kind>(lanes[i % kLanes], A(x[i]));
  for (int64_t width = kLanes / 2; width > 0; width /= 2)
    for (int64_t j = 0; j < width; j++) lanes[j] = Join<kind>(lanes[j], lanes[j + width]);
  return Join<kind>(start, lanes[0]);
}

// The walk of a reduction. `kept` loops over the outputs, and `length` and `step` describe the dim that is removed.
struct Plan {
  Nest kept{2};  // operand 0: out, 1: in
  int64_t length, step;
  bool along_inner;  // runs go along the reduced dim; otherwise along outputs

  Plan(const KernelCall& call, int dim) {
    const TensorView &x = call.in[0], &y = call.out[0];
    for (int d = 0, o = 0; d < x.rank; d++)
      if (d != dim) {
        kept.Add(x.dim(d).extent, {y.dim(o).stride, x.dim(d).stride});
        o++;
      }
    kept.Collapse();
    length = x.dim(dim).extent;
    step = x.dim(dim).stride;
    along_inner = kept.rank == 0 || kept.inner_stride(1) != 1 || kept.inner_extent() < 8;
  }
  int64_t Grain() const { return std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1)); }
};

template <Kind kind, class C, class A>
void ReduceRows(const Plan& plan, const Reader<C>& x, const Writer<C>& y, int64_t begin, int64_t end) {
  alignas(64) C tile[kTile];
  ForEachRun(plan.kept, begin, end, 1, [&](const Offsets& at, int64_t) {
    A total = Identity<kind, A>();
    for (int64_t i = 0; i < plan.length; i += kTile) {
      int64_t n = std::min(kTile, plan.length - i);
      total = JoinRow<kind>(x.Row(at[1] + i * plan.step, plan.step, n, tile), n, total);
    }
    y.Set(at[0], C(total));
  });
}

template <Kind kind, class C, class A>
void ReduceColumns(const Plan& plan, const Reader<C>& x, const Writer<C>& y, int64_t begin, int64_t end) {
  alignas(64) C tile[kTile];
  alignas(64) A total[kTile];
  int64_t sx = plan.kept.inner_stride(1), sy = plan.kept.inner_stride(0);
  ForEachRun(plan.kept, begin, end, kTile, [&](const Offsets& at, int64_t n) {
    std::fill(total, total + n, Identity<kind, A>());
    for (int64_t r = 0; r < plan.length; r++) {
      const C* row = x.Row(at[1] + r * plan.step, sx, n, tile);  // [n]
      for (int64_t i = 0; i < n; i++) total[i] = Join<kind>(total[i], A(row[i]));
    }
    for (int64_t i = 0; i < n; i++) tile[i] = C(total[i]);
    y.Copy(tile, at[0], sy, n);
  });
}

template <Kind kind, class C>
void ReduceAs(const KernelCall& call) {
  using A = Running<kind, C>;
  Plan plan(call, int(call.attrs->Int("dim")));
  Reader<C> x(call.in[0]);
  Writer<C> y(call.out[0]);
  ParallelFor(call, plan.kept.Count(), plan.Grain(), [&](int64_t begin, int64_t end) {
    if (plan.along_inner)
      ReduceRows<kind, C, A>(plan, x, y, begin, end);
    else
      ReduceColumns<kind, C, A>(plan, x, y, begin, end);
  });
}

template <Kind kind>
void Reduce(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  if (dtype == DType::kF64)
    ReduceAs<kind, double>(call);
  else if (IsFloating(dtype))
    ReduceAs<kind, float>(call);
  else
    ReduceAs<kind, int64_t>(call);
}

// NaN is the largest value, and all NaNs are equal.
template <class C>
bool Larger(C a, C b) {
  return !(a <= b) && b == b;
}

template <class C>
void ArgMaxAs(const KernelCall& call) {
  int dim = int(call.attrs->Int("dim"));
  Plan plan(call, dim);
  Reader<C> x(call.in[0]);
  Writer<int64_t> y(call.out[0]);
  ParallelFor(call, plan.kept.Count(), plan.Grain(), [&](int64_t begin, int64_t end) {
    alignas(64) C tile[kTile];
    ForEachRun(plan.kept, begin, end, 1, [&](const Offsets& at, int64_t) {
      int64_t best = 0;
      C largest{};
      for (int64_t i = 0; i < plan.length; i += kTile) {
        int64_t n = std::min(kTile, plan.length - i);
        const C* row = x.Row(at[1] + i * plan.step, plan.step, n, tile);
        for (int64_t j = 0; j < n; j++)
          if (i + j == 0 || Larger(row[j], largest)) {
            largest = row[j];
            best = i + j;
          }
      }
      y.Set(at[0], best + call.in[0].dim(dim).offset);
    });
  });
}

void ArgMax(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  if (dtype == DType::kF64)
    ArgMaxAs<double>(call);
  else if (IsFloating(dtype))
    ArgMaxAs<float>(call);
  else
    ArgMaxAs<int64_t>(call);
}

template <class C>
void CumSumAs(const KernelCall& call) {
  int dim = int(call.attrs->Int("dim"));
  const TensorView &x = call.in[0], &y = call.out[0];
  Nest rows(2);  // operand 0: out, 1: in; all dims but `dim`
  for (int d = 0; d < x.rank; d++)
    if (d != dim) rows.Add(x.dim(d).extent, {y.dim(d).stride, x.dim(d).stride});
  rows.Collapse();
  Reader<C> read(x);
  Writer<C> write(y);
  int64_t length = x.dim(dim).extent, grain = std::max<int64_t>(1, kGrain / std::max<int64_t>(length, 1));
  ParallelFor(call, rows.Count(), grain, [&](int64_t begin, int64_t end) {
    ForEachRun(rows, begin, end, 1, [&](const Offsets& at, int64_t) {
      Running<Kind::kSum, C> total = 0;
      for (int64_t i = 0; i < length; i++) {
        total += read.At(at[1] + i * x.dim(dim).stride);
        write.Set(at[0] + i * y.dim(dim).stride, C(total));
      }
    });
  });
}

void CumSum(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  if (dtype == DType::kF64)
    CumSumAs<double>(call);
  else if (IsFloating(dtype))
    CumSumAs<float>(call);
  else
    CumSumAs<int64_t>(call);
}

// Partial sums over pieces of a fixed size, added in order, so that the number of threads does not change the result.
constexpr int64_t kSquarePiece = 16384;

size_t SumOfSquaresWorkspace(const KernelCall& call) {
  return size_t(CeilDiv(call.in[0].NumElements(), kSquarePiece)) * sizeof(double);
}

template <class C>
void SumOfSquaresAs(const KernelCall& call) {
  const TensorView* views[] = {&call.in[0]};
  Nest nest = Nest::Over(views);
  Reader<C> x(call.in[0]);
  double* partial = static_cast<double*>(call.workspace);
  int64_t count = nest.Count(), pieces = CeilDiv(count, kSquarePiece);
  ParallelFor(call, pieces, 1, [&](int64_t first, int64_t last) {
    alignas(64) C tile[kTile];
    for (int64_t p = first; p < last; p++) {
      double lanes[kLanes] = {};
      ForEachRun(nest, p * kSquarePiece, std::min(count, (p + 1) * kSquarePiece), kTile,
                 [&](const Offsets& at, int64_t n) {
                   const C* row = x.Row(at[0], nest.inner_stride(0), n, tile);
                   int64_t i = 0;
                   for (; i + kLanes <= n; i += kLanes)
                     for (int64_t j = 0; j < kLanes; j++) lanes[j] += double(row[i + j]) * double(row[i + j]);
                   for (; i < n; i++) lanes[i % kLanes] += double(row[i]) * double(row[i]);
                 });
      partial[p] = 0;
      for (double lane : lanes) partial[p] += lane;
    }
  });
  double total = 0;
  for (int64_t p = 0; p < pieces; p++) total += partial[p];
  Writer<double>(call.out[0]).Set(0, total);
}

void SumOfSquares(const KernelCall& call) {
  DispatchCompute(call.in[0].dtype, [&](auto zero) { SumOfSquaresAs<decltype(zero)>(call); });
}

}  // namespace

void AddReduce(KernelTable& table) {
  table.Add(Op::kReduceSum, {.run = &Reduce<Kind::kSum>, .any_strides = true});
  table.Add(Op::kReduceMax, {.run = &Reduce<Kind::kMax>, .any_strides = true});
  table.Add(Op::kReduceMin, {.run = &Reduce<Kind::kMin>, .any_strides = true});
  table.Add(Op::kReduceProd, {.run = &Reduce<Kind::kProd>, .any_strides = true});
  table.Add(Op::kArgMax, {.run = &ArgMax, .any_strides = true});
  table.Add(Op::kCumSum, {.run = &CumSum, .any_strides = true});
  table.Add(Op::kSumOfSquares,
            {.run = &SumOfSquares, .workspace = &SumOfSquaresWorkspace, .any_strides = true, .slices = true});
}

}  // namespace weft::cpu
