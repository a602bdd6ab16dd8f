// The gradient of swiglu(a, b) = silu(a) * b in one pass: da = dy silu'(a) b, db = dy silu(a).

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scalar_math.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

template <class C>
void Loop(const C* a, const C* b, const C* dy, C* da, C* db, int64_t n) {
#pragma GCC ivdep
  for (int64_t i = 0; i < n; i++) {
    C x = a[i], s = C(1) / (C(1) + exp(-x)), g = dy[i];
    da[i] = g * b[i] * s * (C(1) + x * (C(1) - s));
    db[i] = g * x * s;
  }
}

template <class C>
void Run(const KernelCall& call) {
  const TensorView* views[] = {&call.out[0], &call.out[1], &call.in[0], &call.in[1], &call.in[2]};
  Nest nest = Nest::Over(views);
  Writer<C> da(call.out[0]), db(call.out[1]);
  Reader<C> a(call.in[0]), b(call.in[1]), dy(call.in[2]);
  auto stride = [&](int i) { return nest.inner_stride(i); };
  ParallelFor(call, nest.Count(), 8192, [&](int64_t begin, int64_t end) {
    alignas(64) C tiles[5][kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      const C* row_a = a.Row(at[2], stride(2), n, tiles[2]);    // [n]
      const C* row_b = b.Row(at[3], stride(3), n, tiles[3]);    // [n]
      const C* row_dy = dy.Row(at[4], stride(4), n, tiles[4]);  // [n]
      C* row_da = da.Row(at[0], stride(0), tiles[0]);           // [n]
      C* row_db = db.Row(at[1], stride(1), tiles[1]);           // [n]
      Loop(row_a, row_b, row_dy, row_da, row_db, n);
      da.Done(row_da, at[0], stride(0), n);
      db.Done(row_db, at[1], stride(1), n);
    });
  });
}

void SwiGluGrad(const KernelCall& call) {
  DispatchCompute(call.out[0].dtype, [&](auto zero) { Run<decltype(zero)>(call); });
}

}  // namespace

void AddSwiGluGrad(KernelTable& table) {
  table.Add(Op::kSwiGluGrad, {.run = &SwiGluGrad, .any_strides = true, .slices = true});
}

}  // namespace weft::cpu
