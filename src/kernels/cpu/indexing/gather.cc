// Gather, Scatter and ScatterAdd.
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

int DimOf(const KernelCall& call) { return int(call.attrs->Int("dim")); }

template <class Bits>
void GatherBits(const KernelCall& call) {
  const TensorView &x = call.in[0], &ids = call.in[1], &y = call.out[0];
  const DimView& dim = x.dim(DimOf(call));
  Nest nest(3);  // operands: y, ids, the line of x
  for (int d = 0; d < y.rank; d++)
    nest.Add(y.dim(d).extent, {y.dim(d).stride, ids.dim(d).stride, d == DimOf(call) ? 0 : x.dim(d).stride});
  nest.Collapse();
  int64_t y_step = nest.inner_stride(0), id_step = nest.inner_stride(1), x_step = nest.inner_stride(2);
  bool whole_runs = id_step == 0 && y_step == 1 && x_step == 1;
  Reader<int64_t> id(ids);
  ParallelFor(call, nest.Count(), kGrain, [&](int64_t begin, int64_t end) {
    alignas(64) int64_t tile[kTile];
    ForEachRun(nest, begin, end, kTile, [&](const Offsets& at, int64_t n) {
      Bits* to = y.as<Bits>() + at[0];
      const Bits* from = x.as<const Bits>() + at[2];
      auto holds = [&](int64_t place) { return place >= 0 && place < dim.extent; };
      if (whole_runs) {  // one id names the whole run
        int64_t place = id.At(at[1]) - dim.offset;
        if (!holds(place)) return void(std::fill(to, to + n, Bits(0)));
        return void(std::copy_n(from + place * dim.stride, n, to));
      }
      const int64_t* row = id.Row(at[1], id_step, n, tile);  // [n]
      for (int64_t i = 0; i < n; i++) {
        int64_t place = row[i] - dim.offset;
        to[i * y_step] = holds(place) ? from[i * x_step + place * dim.stride] : Bits(0);
      }
    });
  });
}
void Gather(const KernelCall& call) {
  DispatchSize(call.in[0].dtype, [&](auto zero) { GatherBits<decltype(zero)>(call); });
}

// The lines of `dim`, one step for each position in the other dims. Operands: full (the tensor whose elements the ids
// name), ids, moved (the elements that belong to the ids). Neighbouring lines are taken together if that walks memory
// in order.
struct Lines {
  static constexpr int64_t kMostTogether = 16;
  Nest others{3};
  int64_t length;                          // ids of a line
  int64_t full_step, id_step, moved_step;  // strides along `dim`
  int64_t first, held;                     // this rank holds the elements [first, first + held) of `dim`
  int64_t together = 1;

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
    if (others.rank > 0 && dim + 1 < full.rank) together = kMostTogether;
  }
  int64_t Grain() const { return std::max<int64_t>(1, kGrain / std::max<int64_t>(length + held, 1)); }

  // Calls fn(line, id, place) for each id of `n` neighbouring lines whose element this rank holds, in order of ids.
  // `id` is its number in the line, `place` the local index that it names.
  template <class Fn>
  void ForEachId(const Reader<int64_t>& ids, int64_t at, int64_t n, Fn&& fn) const {
    int64_t row[kMostTogether];
    for (int64_t i = 0; i < length; i++) {
      ids.Copy(at + i * id_step, others.inner_stride(1), n, row);
      for (int64_t k = 0; k < n; k++)
        if (int64_t place = row[k] - first; place >= 0 && place < held) fn(k, i, place);
    }
  }
};

// Starts the result as x, unless it shares x's storage.
void CopyFirst(const KernelCall& call) {
  if (call.out[0].data != call.in[0].data) CopyBox(call, call.out[0], call.in[0]);
}

template <class Bits>
void ScatterBits(const KernelCall& call) {
  const TensorView &y = call.out[0], &src = call.in[2];
  Lines lines(DimOf(call), y, call.in[1], src);
  Reader<int64_t> ids(call.in[1]);
  int64_t to_next = lines.others.inner_stride(0), from_next = lines.others.inner_stride(2);
  ParallelFor(call, lines.others.Count(), lines.Grain(), [&](int64_t begin, int64_t end) {
    ForEachRun(lines.others, begin, end, lines.together, [&](const Offsets& at, int64_t n) {
      Bits* to = y.as<Bits>() + at[0];
      const Bits* from = src.as<const Bits>() + at[2];
      lines.ForEachId(ids, at[1], n, [&](int64_t k, int64_t i, int64_t place) {
        to[k * to_next + place * lines.full_step] = from[k * from_next + i * lines.moved_step];
      });
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

// Sums of a line of the result, for each thread and each line that it takes together with others.
size_t ScatterAddWorkspace(const KernelCall& call) {
  Scratch scratch(nullptr);
  int64_t held = call.out[0].dim(DimOf(call)).extent;
  for (int slot = 0; slot < Threads(call); slot++) scratch.Take<double>(held * Lines::kMostTogether);
  return scratch.used();
}

template <class C>
void ScatterAddAs(const KernelCall& call) {
  const TensorView &y = call.out[0], &src = call.in[2];
  Lines lines(DimOf(call), y, call.in[1], src);
  Reader<int64_t> ids(call.in[1]);
  Reader<C> start(y), terms(src);  // the result starts as x
  Writer<C> result(y);
  Scratch scratch(call.workspace);
  absl::InlinedVector<SumOf<C>*, 16> spaces;
  for (int slot = 0; slot < Threads(call); slot++)
    spaces.push_back(reinterpret_cast<SumOf<C>*>(scratch.Take<double>(lines.held * Lines::kMostTogether)));
  int64_t next = lines.others.inner_stride(0), from_next = lines.others.inner_stride(2);
  ParallelSlots(call, lines.others.Count(), Threads(call), [&](int64_t slot, int64_t begin, int64_t end) {
    SumOf<C>* sums = spaces[size_t(slot)];  // [held, n]
    C row[Lines::kMostTogether];
    ForEachRun(lines.others, begin, end, lines.together, [&](const Offsets& at, int64_t n) {
      for (int64_t a = 0; a < lines.held; a++) {
        start.Copy(at[0] + a * lines.full_step, next, n, row);
        for (int64_t k = 0; k < n; k++) sums[a * n + k] = SumOf<C>(row[k]);
      }
      lines.ForEachId(ids, at[1], n, [&](int64_t k, int64_t i, int64_t place) {
        sums[place * n + k] += SumOf<C>(terms.At(at[2] + k * from_next + i * lines.moved_step));
      });
      for (int64_t a = 0; a < lines.held; a++) {
        for (int64_t k = 0; k < n; k++) row[k] = C(sums[a * n + k]);
        result.Copy(row, at[0] + a * lines.full_step, next, n);
      }
    });
  });
}
void ScatterAdd(const KernelCall& call) {
  CopyFirst(call);
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
