// Gather, Scatter and ScatterAdd. The dims other than `dim` are walked together. Along `dim`, ids choose the elements.
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/copy.h"
#include "weft/kernels/cpu/loops/scratch.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

constexpr int64_t kGrain = 16384;  // elements that a piece moves

// Calls fn with a zero of the unsigned type of the dtype's size, because elements are moved as bits.
template <class Fn>
void DispatchSize(DType dtype, Fn&& fn) {
  switch (SizeOf(dtype)) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

// The lines of `dim`: one step for each position in the other dims. Operands: full (x or the result, whose dim the ids
// name), ids, moved (the elements that belong to the ids).
struct Lines {
  Nest others{3};
  int64_t length;                          // ids of a line
  int64_t full_step, id_step, moved_step;  // strides along `dim`
  int64_t first, held;                     // this rank holds the elements [first, first + held) of `dim`

  Lines(int dim, const TensorView& full, const TensorView& ids, const TensorView& moved)
      : length(ids.dim(dim).extent),
        full_step(full.dim(dim).stride),
        id_step(ids.dim(dim).stride),
        moved_step(moved.dim(dim).stride),
        first(full.dim(dim).offset),
        held(full.dim(dim).extent) {
    for (int d = 0; d < full.rank; d++)
      if (d != dim) others.Add(ids.dim(d).extent, {full.dim(d).stride, ids.dim(d).stride, moved.dim(d).stride});
    others.Collapse();
  }
  int64_t Grain(int64_t per_line) const { return std::max<int64_t>(1, kGrain / std::max<int64_t>(per_line, 1)); }
};

int DimOf(const KernelCall& call) { return int(call.attrs->Int("dim")); }

template <class Bits>
void GatherBits(const KernelCall& call) {
  const TensorView &x = call.in[0], &ids = call.in[1], &y = call.out[0];
  Lines lines(DimOf(call), x, ids, y);
  Reader<int64_t> id(ids);
  ParallelFor(call, lines.others.Count(), lines.Grain(lines.length), [&](int64_t begin, int64_t end) {
    ForEachRun(lines.others, begin, end, 1, [&](const Offsets& at, int64_t) {
      const Bits* from = x.as<const Bits>() + at[0];
      Bits* to = y.as<Bits>() + at[2];
      for (int64_t i = 0; i < lines.length; i++) {
        int64_t place = id.At(at[1] + i * lines.id_step) - lines.first;
        bool holds = place >= 0 && place < lines.held;
        to[i * lines.moved_step] = holds ? from[place * lines.full_step] : Bits(0);
      }
    });
  });
}
void Gather(const KernelCall& call) {
  DispatchSize(call.in[0].dtype, [&](auto zero) { GatherBits<decltype(zero)>(call); });
}

// Starts the result as x, unless it shares x's storage.
void CopyFirst(const KernelCall& call) {
  if (call.out[0].data != call.in[0].data) CopyBox(call, call.out[0], call.in[0]);
}

template <class Bits>
void ScatterBits(const KernelCall& call) {
  const TensorView &y = call.out[0], &ids = call.in[1], &src = call.in[2];
  Lines lines(DimOf(call), y, ids, src);
  Reader<int64_t> id(ids);
  ParallelFor(call, lines.others.Count(), lines.Grain(lines.length), [&](int64_t begin, int64_t end) {
    ForEachRun(lines.others, begin, end, 1, [&](const Offsets& at, int64_t) {
      Bits* to = y.as<Bits>() + at[0];
      const Bits* from = src.as<const Bits>() + at[2];
      for (int64_t i = 0; i < lines.length; i++) {
        int64_t place = id.At(at[1] + i * lines.id_step) - lines.first;
        if (place >= 0 && place < lines.held) to[place * lines.full_step] = from[i * lines.moved_step];
      }
    });
  });
}
void Scatter(const KernelCall& call) {
  CopyFirst(call);
  DispatchSize(call.in[0].dtype, [&](auto zero) { ScatterBits<decltype(zero)>(call); });
}

// Sums of floats run in f64 and are rounded once.
template <class C>
using SumOf = std::conditional_t<std::is_same_v<C, float>, double, C>;

size_t ScatterAddWorkspace(const KernelCall& call) {
  Scratch scratch(nullptr);
  int64_t held = call.out[0].dim(DimOf(call)).extent;
  for (int slot = 0; slot < Threads(call); slot++) scratch.Take<double>(held);
  return scratch.used();
}

template <class C>
void ScatterAddAs(const KernelCall& call) {
  const TensorView &x = call.in[0], &y = call.out[0], &ids = call.in[1], &src = call.in[2];
  int dim = DimOf(call);
  Lines lines(dim, y, ids, src);
  Nest of_x(1);
  for (int d = 0; d < x.rank; d++)
    if (d != dim) of_x.Add(x.dim(d).extent, {x.dim(d).stride});
  Reader<int64_t> id(ids);
  Reader<C> start(x), term(src);
  Writer<C> result(y);
  Scratch scratch(call.workspace);
  absl::InlinedVector<SumOf<C>*, 16> sums;
  for (int slot = 0; slot < Threads(call); slot++)
    sums.push_back(reinterpret_cast<SumOf<C>*>(scratch.Take<double>(lines.held)));
  ParallelSlots(call, of_x.Count(), Threads(call), [&](int64_t slot, int64_t begin, int64_t end) {
    SumOf<C>* sum = sums[size_t(slot)];  // [held]
    for (int64_t line = begin; line < end; line++) {
      Offsets at = lines.others.At(line);
      int64_t x_at = of_x.At(line)[0];
      for (int64_t a = 0; a < lines.held; a++) sum[a] = SumOf<C>(start.At(x_at + a * x.dim(dim).stride));
      for (int64_t i = 0; i < lines.length; i++) {
        int64_t place = id.At(at[1] + i * lines.id_step) - lines.first;
        if (place >= 0 && place < lines.held) sum[place] += SumOf<C>(term.At(at[2] + i * lines.moved_step));
      }
      for (int64_t a = 0; a < lines.held; a++) result.Set(at[0] + a * lines.full_step, C(sum[a]));
    }
  });
}
void ScatterAdd(const KernelCall& call) {
  DType dtype = call.in[0].dtype;
  if (!IsFloating(dtype)) return ScatterAddAs<int64_t>(call);
  DispatchCompute(dtype, [&](auto zero) { ScatterAddAs<decltype(zero)>(call); });
}

}  // namespace

void AddGather(KernelTable& table) {
  table.Add(Op::kGather, {.run = &Gather, .any_strides = true});
  table.Add(Op::kScatter, {.run = &Scatter, .any_strides = true, .in_place = true});
  table.Add(Op::kScatterAdd,
            {.run = &ScatterAdd, .workspace = &ScatterAddWorkspace, .any_strides = true, .in_place = true});
}

}  // namespace weft::cpu
