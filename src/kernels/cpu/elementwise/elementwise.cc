// Unary, scalar, binary, comparison and logic ops: one loop per op and compute type, over tiles, which are rows of the
// storage if possible. 16-bit floats compute in f32, and all integers in i64.
#include "weft/core/ir/elementwise_rows.h"

#include "weft/core/ir/integer_ops.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scalar_math.h"
#include "weft/kernels/cpu/loops/strided.h"

#include <fmt/format.h>

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements: about 10 us of work, well above the cost of waking a thread

template <Op op>
struct Body;
#define WEFT_BODY(Name, text, linear, integers, value, ...)                            \
  template <>                                                                          \
  struct Body<Op::k##Name> {                                                           \
    template <class C>                                                                 \
    static C Value([[maybe_unused]] C a, [[maybe_unused]] C b, [[maybe_unused]] C k) { \
      return C(value);                                                                 \
    }                                                                                  \
  };
WEFT_UNARY_OPS(WEFT_BODY)
WEFT_SCALAR_OPS(WEFT_BODY)
WEFT_BINARY_OPS(WEFT_BODY)
#undef WEFT_BODY
#define WEFT_COMPARE_BODY(Name, text, value) \
  template <>                                \
  struct Body<Op::k##Name> {                 \
    template <class C>                       \
    static bool Value(C a, C b, C) {         \
      return value;                          \
    }                                        \
  };
WEFT_COMPARE_OPS(WEFT_COMPARE_BODY)
WEFT_LOGIC_OPS(WEFT_COMPARE_BODY)
#undef WEFT_COMPARE_BODY

// R is C, or int64_t if the result is a bool.
template <class C, class R>
using LoopFn = void (*)(const C* a, const C* b, C k, R* y, int64_t n);

// ivdep and not restrict, because y may be a itself. It never overlaps a with a shift.
template <Op op, class C, class R>
void Loop(const C* a, const C* b, C k, R* y, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++) y[i] = R(Body<op>::Value(a[i], b[i], k));
}

template <class C, class R>
void RunTiles(const KernelCall& call, C k, LoopFn<C, R> loop) {
  const TensorView &out = call.out[0], &first = call.in[0],
                   &second = call.in.size() > 1 && call.in[1].data ? call.in[1] : first;
  const TensorView* views[] = {&out, &first, &second};
  Nest nest = Nest::Over(views);
  Writer<R> y(out);
  Reader<C> a(first), b(second);
  int64_t sy = nest.inner_stride(0), sa = nest.inner_stride(1), sb = nest.inner_stride(2);
  bool unary = &second == &first;
  ParallelFor(call, nest.Count(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) C tile_a[kTile], tile_b[kTile];
    alignas(64) R tile_y[kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      const C* row_a = a.Row(at[1], sa, n, tile_a);                  // [n]
      const C* row_b = unary ? row_a : b.Row(at[2], sb, n, tile_b);  // [n]
      R* row_y = y.Row(at[0], sy, tile_y);                           // [n]
      loop(row_a, row_b, k, row_y, n);
      y.Done(row_y, at[0], sy, n);
    });
  });
}

[[noreturn]] void RefuseType(Op op, DType dtype) {
  Fail(fmt::format("{} on the CPU: no kernel for dtype {}; cast the operand to a float", Name(op), Name(dtype)));
}

template <Op op>
void RunArithmetic(const KernelCall& call) {
  double k = call.attrs && call.attrs->Has("k") ? call.attrs->Float("k") : 0;
  DType dtype = call.in[0].dtype;
  if (dtype == DType::kF64) return RunTiles<double, double>(call, k, &Loop<op, double, double>);
  if (IsFloating(dtype)) return RunTiles<float, float>(call, float(k), &Loop<op, float, float>);
  if constexpr (TakesIntegers(op)) return RunTiles<int64_t, int64_t>(call, int64_t(k), &Loop<op, int64_t, int64_t>);
  RefuseType(op, dtype);
}

template <Op op>
void RunPredicate(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  if (dtype == DType::kF64) return RunTiles<double, int64_t>(call, 0, &Loop<op, double, int64_t>);
  if (IsFloating(dtype)) return RunTiles<float, int64_t>(call, 0, &Loop<op, float, int64_t>);
  RunTiles<int64_t, int64_t>(call, 0, &Loop<op, int64_t, int64_t>);
}

}  // namespace

void AddElementwise(KernelTable& table) {
#define WEFT_ROW(Name, ...) \
  table.Add(Op::k##Name, {.run = &RunArithmetic<Op::k##Name>, .any_strides = true, .slices = true, .in_place = true});
  WEFT_UNARY_OPS(WEFT_ROW)
  WEFT_SCALAR_OPS(WEFT_ROW)
  WEFT_BINARY_OPS(WEFT_ROW)
#undef WEFT_ROW
#define WEFT_ROW(Name, ...) table.Add(Op::k##Name, {.run = &RunPredicate<Op::k##Name>, .any_strides = true});
  WEFT_COMPARE_OPS(WEFT_ROW)
  WEFT_LOGIC_OPS(WEFT_ROW)
#undef WEFT_ROW
}

}  // namespace weft::cpu
