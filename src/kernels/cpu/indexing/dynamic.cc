// DynamicSlice and DynamicUpdate: one copy for each start.
#include "weft/kernels/common/structural.h"
#include "weft/kernels/cpu/families.h"
#include "weft/kernels/cpu/loops/convert.h"
#include "weft/kernels/cpu/loops/copy.h"

namespace weft::cpu {
namespace {

// Returns the dims of a view from number `first` on, starting `at` elements further along.
TensorView Inner(const TensorView& view, int first, int64_t at) {
  TensorView inner = view;
  inner.data = view.as<char>() + at * int64_t(SizeOf(view.dtype));
  inner.rank = view.rank - first;
  std::copy(view.dims.begin() + first, view.dims.begin() + view.rank, inner.dims.begin());
  return inner;
}

// Calls fn(whole, window, begin) for each start: the views of the dims that follow the start's, and the local index in
// `whole` at which the window begins. It may lie outside of what this rank holds.
template <class Fn>
void ForEachWindow(const TensorView& starts, const TensorView& whole, const TensorView& window, int dim, Fn&& fn) {
  Nest nest(3);
  for (int d = 0; d < starts.rank; d++)
    nest.Add(starts.dim(d).extent, {starts.dim(d).stride, whole.dim(d).stride, window.dim(d).stride});
  nest.Collapse();
  Reader<int64_t> start(starts);
  for (int64_t step = 0; step < nest.Count(); step++) {
    Offsets at = nest.At(step);
    int64_t last = whole.dim(dim).global - window.dim(dim).global;
    int64_t begin = std::clamp<int64_t>(start.At(at[0]), 0, last);
    fn(Inner(whole, starts.rank, at[1]), Inner(window, starts.rank, at[2]), begin - whole.dim(dim).offset);
  }
}

// Copies what both views have in common, if `window` begins at local index `begin` of `whole`.
void CopyCommon(const KernelCall& call, TensorView whole, TensorView window, int dim, int64_t begin, bool to_whole) {
  DimView &w = whole.dims[size_t(dim)], &p = window.dims[size_t(dim)];
  int64_t first = std::clamp<int64_t>(begin, 0, w.extent),
          last = std::clamp<int64_t>(begin + p.extent, first, w.extent);
  if (first == last) return;
  whole = Advanced(whole, dim, first);
  window = Advanced(window, dim, first - begin);
  whole.dims[size_t(dim)].extent = window.dims[size_t(dim)].extent = last - first;
  CopyBox(call, to_whole ? whole : window, to_whole ? window : whole);
}

void DynamicSlice(const KernelCall& call) {
  const TensorView &x = call.in[0], &starts = call.in[1], &y = call.out[0];
  int dim = int(call.attrs->Int("dim")), inner = dim - starts.rank;
  if (x.dim(dim).extent < x.dim(dim).global) ZeroBox(call, y);  // elements that other ranks hold
  ForEachWindow(starts, x, y, dim, [&](const TensorView& whole, const TensorView& window, int64_t begin) {
    CopyCommon(call, whole, window, inner, begin, false);
  });
}

void DynamicUpdate(const KernelCall& call) {
  const TensorView &x = call.in[0], &update = call.in[1], &starts = call.in[2], &y = call.out[0];
  int dim = int(call.attrs->Int("dim")), inner = dim - starts.rank;
  if (y.data != x.data) CopyBox(call, y, x);
  ForEachWindow(starts, y, update, dim, [&](const TensorView& whole, const TensorView& window, int64_t begin) {
    CopyCommon(call, whole, window, inner, begin, true);
  });
}

}  // namespace

void AddDynamic(KernelTable& table) {
  table.Add(Op::kDynamicSlice, {.run = &DynamicSlice, .any_strides = true});
  table.Add(Op::kDynamicUpdate, {.run = &DynamicUpdate, .any_strides = true, .in_place = true});
}

}  // namespace weft::cpu
