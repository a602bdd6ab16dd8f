// Select, Not, Cast and StopGradient: elementwise ops with mixed dtypes.
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/copy.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 16384;

// Moves elements by size, whatever their dtype.
template <class Bits>
void SelectBits(const KernelCall& call) {
  const TensorView* views[] = {&call.out[0], &call.in[0], &call.in[1], &call.in[2]};
  Nest nest = Nest::Over(views);
  int64_t sy = nest.inner_stride(0), sc = nest.inner_stride(1), sa = nest.inner_stride(2), sb = nest.inner_stride(3);
  ParallelFor(call, nest.Count(), kGrain, [&](int64_t begin, int64_t end) {
    ForEachRun(nest, begin, end, end, [&](const Offsets& at, int64_t n) {
      Bits* y = call.out[0].as<Bits>() + at[0];
      const uint8_t* c = call.in[0].as<const uint8_t>() + at[1];
      const Bits *a = call.in[1].as<const Bits>() + at[2], *b = call.in[2].as<const Bits>() + at[3];
      if (sy == 1 && sc == 1 && sa == 1 && sb == 1) {
        for (int64_t i = 0; i < n; i++) y[i] = c[i] ? a[i] : b[i];
      } else {
        for (int64_t i = 0; i < n; i++) y[i * sy] = c[i * sc] ? a[i * sa] : b[i * sb];
      }
    });
  });
}

void Select(const KernelCall& call) {
  switch (SizeOf(call.out[0].dtype)) {
    case 1:
      return SelectBits<uint8_t>(call);
    case 2:
      return SelectBits<uint16_t>(call);
    case 4:
      return SelectBits<uint32_t>(call);
    default:
      return SelectBits<uint64_t>(call);
  }
}

// Converts through a tile of C, which `change` may rewrite.
template <class C>
void Convert(const KernelCall& call, void (*change)(C* tile, int64_t n)) {
  const TensorView* views[] = {&call.out[0], &call.in[0]};
  Nest nest = Nest::Over(views);
  Reader<C> x(call.in[0]);
  Writer<C> y(call.out[0]);
  ParallelFor(call, nest.Count(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) C tile[kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      x.Copy(at[1], nest.inner_stride(1), n, tile);  // [n]
      if (change) change(tile, n);
      y.Copy(tile, at[0], nest.inner_stride(0), n);
    });
  });
}

void Cast(const KernelCall& call) {
  DType from = call.in[0].dtype, to = call.out[0].dtype;
  if (from == to) return CopyBox(call, call.out[0], call.in[0]);
  if (!IsFloating(from)) return Convert<int64_t>(call, nullptr);
  if (from == DType::kF64) return Convert<double>(call, nullptr);
  Convert<float>(call, nullptr);
}

void Not(const KernelCall& call) {
  Convert<int64_t>(call, [](int64_t* tile, int64_t n) {
    for (int64_t i = 0; i < n; i++) tile[i] = !tile[i];
  });
}

void StopGradient(const KernelCall& call) {
  if (call.out[0].data != call.in[0].data) CopyBox(call, call.out[0], call.in[0]);
}

}  // namespace

void AddSelectAndCast(KernelTable& table) {
  table.Add(Op::kSelect, {.run = &Select, .any_strides = true});
  table.Add(Op::kCast, {.run = &Cast, .any_strides = true, .slices = true});
  table.Add(Op::kNot, {.run = &Not, .any_strides = true, .in_place = true});
  table.Add(Op::kStopGradient, {.run = &StopGradient, .any_strides = true, .in_place = true});
}

}  // namespace weft::cpu
