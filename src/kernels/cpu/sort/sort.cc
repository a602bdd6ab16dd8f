// Sort, TopK and CumMax, line by line.
#include "weft/core/ops/sort.h"

#include <algorithm>
#include <cmath>

#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/scratch.h"
#include "weft/kernels/cpu/loops/strided.h"

namespace weft::cpu {
namespace {

int DimOf(const KernelCall& call) { return int(call.attrs->Int("dim")); }

// One step for each line of the dim. Operands: x, values, indices.
Nest LinesOf(const KernelCall& call) {
  Nest lines(3);
  const TensorView &x = call.in[0], &values = call.out[0], &indices = call.out[1];
  for (int d = 0; d < x.rank; d++)
    if (d != DimOf(call)) lines.Add(x.dim(d).extent, {x.dim(d).stride, values.dim(d).stride, indices.dim(d).stride});
  lines.Collapse();
  return lines;
}

// Calls fn with a zero of the type in which elements of the dtype are compared.
template <class Fn>
void DispatchKey(DType dtype, Fn&& fn) {
  if (!IsFloating(dtype)) return fn(int64_t{});
  DispatchCompute(dtype, fn);
}

template <class C>
struct Entry {
  C value;
  int64_t index;
};

// NaN is the largest value, and all NaNs are equal.
template <class C>
bool Less(C a, C b) {
  if constexpr (std::is_floating_point_v<C>)
    return a < b || (std::isnan(b) && !std::isnan(a));
  else
    return a < b;
}
// No two entries are equal, so any algorithm keeps the order of equal values.
template <class C>
bool Before(const Entry<C>& a, const Entry<C>& b) {
  return Less(a.value, b.value) || (!Less(b.value, a.value) && a.index < b.index);
}
template <class C>
bool BeforeDescending(const Entry<C>& a, const Entry<C>& b) {
  return Less(b.value, a.value) || (!Less(a.value, b.value) && a.index < b.index);
}

size_t SortWorkspace(const KernelCall& call) {
  Scratch scratch(nullptr);
  for (int slot = 0; slot < Threads(call); slot++) scratch.Take<Entry<double>>(call.in[0].dim(DimOf(call)).extent);
  return scratch.used();
}

template <class C>
void Order(Entry<C>* entries, int64_t n, int64_t k, bool descending) {
  auto* before = descending ? &BeforeDescending<C> : &Before<C>;
  if (k < n)
    std::partial_sort(entries, entries + k, entries + n, before);
  else
    std::sort(entries, entries + n, before);
}

template <class C>
void SortAs(const KernelCall& call, bool descending) {
  const DimView &from = call.in[0].dim(DimOf(call)), &to = call.out[0].dim(DimOf(call)),
                &id_to = call.out[1].dim(DimOf(call));
  Nest lines = LinesOf(call);
  Reader<C> x(call.in[0]);
  Writer<C> values(call.out[0]);
  Writer<int64_t> indices(call.out[1]);
  Scratch scratch(call.workspace);
  absl::InlinedVector<Entry<C>*, 16> spaces;
  for (int slot = 0; slot < Threads(call); slot++)
    spaces.push_back(reinterpret_cast<Entry<C>*>(scratch.Take<Entry<double>>(from.extent)));
  ParallelSlots(call, lines.Count(), Threads(call), [&](int64_t slot, int64_t begin, int64_t end) {
    Entry<C>* entries = spaces[size_t(slot)];  // [from.extent]
    ForEachRun(lines, begin, end, 1, [&](const Offsets& at, int64_t) {
      for (int64_t i = 0; i < from.extent; i++) entries[i] = {x.At(at[0] + i * from.stride), i};
      Order(entries, from.extent, to.extent, descending);
      for (int64_t i = 0; i < to.extent; i++) {
        values.Set(at[1] + i * to.stride, entries[i].value);
        indices.Set(at[2] + i * id_to.stride, entries[i].index);
      }
    });
  });
}
void Sort(const KernelCall& call) {
  bool descending = call.attrs->IntOr("descending", 0);
  DispatchKey(call.in[0].dtype, [&](auto zero) { SortAs<decltype(zero)>(call, descending); });
}
void TopK(const KernelCall& call) {
  DispatchKey(call.in[0].dtype, [&](auto zero) { SortAs<decltype(zero)>(call, true); });
}

template <class C>
void CumMaxAs(const KernelCall& call) {
  const DimView &from = call.in[0].dim(DimOf(call)), &to = call.out[0].dim(DimOf(call)),
                &id_to = call.out[1].dim(DimOf(call));
  Nest lines = LinesOf(call);
  Reader<C> x(call.in[0]);
  Writer<C> values(call.out[0]);
  Writer<int64_t> indices(call.out[1]);
  int64_t grain = std::max<int64_t>(1, 16384 / std::max<int64_t>(from.extent, 1));
  ParallelFor(call, lines.Count(), grain, [&](int64_t begin, int64_t end) {
    ForEachRun(lines, begin, end, 1, [&](const Offsets& at, int64_t) {
      Entry<C> largest{};
      for (int64_t i = 0; i < from.extent; i++) {
        C value = x.At(at[0] + i * from.stride);
        if (i == 0 || !Less(value, largest.value)) largest = {value, i};
        values.Set(at[1] + i * to.stride, largest.value);
        indices.Set(at[2] + i * id_to.stride, largest.index);
      }
    });
  });
}
void CumMax(const KernelCall& call) {
  DispatchKey(call.in[0].dtype, [&](auto zero) { CumMaxAs<decltype(zero)>(call); });
}

}  // namespace

void AddSort(KernelTable& table) {
  table.Add(Op::kSort, {.run = &Sort, .workspace = &SortWorkspace, .any_strides = true});
  table.Add(Op::kTopK, {.run = &TopK, .workspace = &SortWorkspace, .any_strides = true});
  table.Add(Op::kCumMax, {.run = &CumMax, .any_strides = true});
}

}  // namespace weft::cpu
