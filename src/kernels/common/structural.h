// Structural ops (broadcast, permute, split, merge, slice, pad, concat, reverse). Each is a copy between two views of
// one box; only the strides and the first element differ.
//
// All positions are global indices, so a rank that holds a shard of the dim copies the overlap of what it holds of both
// sides. A device provides the copies:
//
//   void AddStructural(KernelTable& table) { StructuralOps<CopyBox, CopyBox, CopySingles, ZeroBox>::Add(table); }
#pragma once
#include <algorithm>
#include <span>
#include <utility>

#include "weft/core/ops/structural.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

// Copies `from` into `to`. The extents are those of `to`; dim i of `from` matches dim i of `to`, each with its own
// stride.
using CopyBoxFn = void (*)(const KernelCall& call, const TensorView& to, const TensorView& from);
// Copies tensors of one element each into elements of `to` that are `stride` apart.
using CopySinglesFn = void (*)(const KernelCall& call, const TensorView& to, int64_t stride,
                               std::span<const TensorView> from);
// Writes zeros into the box of `to`.
using ZeroBoxFn = void (*)(const KernelCall& call, const TensorView& to);

// Returns the view that starts `index` elements further along `dim`.
inline TensorView Advanced(TensorView view, int dim, int64_t index) {
  if (view.data) view.data = view.as<char>() + index * view.dim(dim).stride * int64_t(SizeOf(view.dtype));
  return view;
}

// CopyPieces does the same as CopyBox, but its source view may span several allocations.
template <CopyBoxFn CopyBox, CopyBoxFn CopyPieces, CopySinglesFn CopySingles, ZeroBoxFn ZeroBox>
class StructuralOps {
 public:
  static void Add(KernelTable& table) {
    Each([&](Op op, auto run) { table.Add(op, {.run = run, .any_strides = true}); });
  }
  // Calls fn(op, run) for each structural op.
  template <class Fn>
  static void Each(Fn&& fn) {
    fn(Op::kBroadcast, &Broadcast);
    fn(Op::kPermute, &Permute);
    fn(Op::kSplit, &Split);
    fn(Op::kMerge, &Merge);
    fn(Op::kSlice, &Slice);
    fn(Op::kPad, &Pad);
    fn(Op::kConcat, &Concat);
    fn(Op::kReverse, &Reverse);
  }

 private:
  static int Dim(const KernelCall& call) { return int(call.attrs->Int("dim")); }

  // Returns the part of `dim` with local indices [begin, end).
  static TensorView Part(const TensorView& view, int dim, int64_t begin, int64_t end) {
    TensorView part = Advanced(view, dim, begin);
    part.dims[size_t(dim)].extent = std::max<int64_t>(end - begin, 0);
    return part;
  }

  static void Broadcast(const KernelCall& call) {
    TensorView from = call.out[0];
    from.data = call.in[0].data;
    for (int d = 0, source = 0; d < from.rank; d++)
      from.dims[size_t(d)].stride = d == Dim(call) ? 0 : call.in[0].dim(source++).stride;
    CopyBox(call, call.out[0], from);
  }

  static void Permute(const KernelCall& call) {
    const Shape& perm = call.attrs->Ints("perm");
    TensorView from = call.in[0];
    for (int d = 0; d < from.rank; d++) from.dims[size_t(d)] = call.in[0].dim(int(perm[size_t(d)]));
    CopyBox(call, call.out[0], from);
  }

  // Returns `flat` seen with `dim` split in two. `split` gives the two dims, [n / inner, inner], and this rank's
  // offsets.
  static TensorView SplitView(const TensorView& flat, const TensorView& split, int dim) {
    const DimView &whole = flat.dim(dim), &outer = split.dim(dim), &inner = split.dim(dim + 1);
    TensorView view = split;
    view.data = flat.data;
    for (int d = 0; d < split.rank; d++) view.dims[size_t(d)].stride = flat.dim(d <= dim ? d : d - 1).stride;
    view.dims[size_t(dim)].stride = whole.stride * inner.global;
    return view.NumElements() ? Advanced(view, dim + 1, outer.offset * inner.global + inner.offset - whole.offset)
                              : view;
  }

  static void Split(const KernelCall& call) {
    CopyBox(call, call.out[0], SplitView(call.in[0], call.out[0], Dim(call)));
  }
  static void Merge(const KernelCall& call) {
    CopyBox(call, SplitView(call.out[0], call.in[0], Dim(call)), call.in[0]);
  }

  // If the op is packed, returns the view with a dim that counts the elements of this rank (ops/structural.h).
  static TensorView Counted(const KernelCall& call, TensorView view) {
    DimView& d = view.dims[size_t(Dim(call))];
    if (IsPacked(*call.attrs)) d.offset = 0, d.global = d.extent;
    return view;
  }

  // Copies what this rank holds of both sides, when element 0 (global) of `piece` is element `start` (global) of
  // `whole`. `to_whole` selects which side is written. Returns the local range of `whole` that overlaps the piece.
  static std::pair<int64_t, int64_t> CopyMeeting(const KernelCall& call, const TensorView& whole,
                                                 const TensorView& piece, int dim, int64_t start, bool to_whole) {
    const DimView &w = whole.dim(dim), &p = piece.dim(dim);
    int64_t shift = start + p.offset - w.offset;  // local index in `whole` of the piece's local element 0
    int64_t begin = std::clamp<int64_t>(shift, 0, w.extent),
            end = std::clamp<int64_t>(shift + p.extent, begin, w.extent);
    TensorView part = Part(whole, dim, begin, end), other = Part(piece, dim, begin - shift, end - shift);
    if (begin < end) CopyBox(call, to_whole ? part : other, to_whole ? other : part);
    return {begin, end};
  }

  // With a step, the dim is never sharded: its source is a view with larger strides.
  static void Slice(const KernelCall& call) {
    int64_t step = call.attrs->IntOr("step", 1);
    if (step != 1) {
      TensorView from = Advanced(call.in[0], Dim(call), call.attrs->Int("start"));
      from.dims[size_t(Dim(call))].stride *= step;
      return CopyBox(call, call.out[0], from);
    }
    int64_t start = call.attrs->IntOr("packed", call.attrs->Int("start"));
    CopyMeeting(call, Counted(call, call.in[0]), Counted(call, call.out[0]), Dim(call), start, false);
  }

  static void Pad(const KernelCall& call) {
    int dim = Dim(call);
    const TensorView& out = call.out[0];
    auto [begin, end] = CopyMeeting(call, out, call.in[0], dim, call.attrs->Int("low"), true);
    ZeroBox(call, Part(out, dim, 0, begin));
    ZeroBox(call, Part(out, dim, end, out.dim(dim).extent));
  }

  static void Reverse(const KernelCall& call) {
    TensorView from = call.in[0];
    DimView& dim = from.dims[size_t(Dim(call))];
    if (dim.extent == 0) return;
    from = Advanced(from, Dim(call), dim.extent - 1);
    from.dims[size_t(Dim(call))].stride *= -1;
    CopyBox(call, call.out[0], from);
  }

  static int64_t Address(const TensorView& view) { return int64_t(reinterpret_cast<intptr_t>(view.data)); }

  // Returns whether this rank holds all pieces whole, in one layout and evenly spaced in memory. Two pieces are always
  // evenly spaced.
  static bool Alike(const KernelCall& call, int dim) {
    const TensorView &first = call.in[0], &out = call.out[0];
    if (call.in.size() < 2 || first.rank == kMaxRank || out.dim(dim).extent != out.dim(dim).global) return false;
    int64_t apart = Address(call.in[1]) - Address(first);
    for (size_t p = 0; p < call.in.size(); p++) {
      const TensorView& piece = call.in[p];
      bool alike =
          Address(piece) - Address(first) == int64_t(p) * apart && piece.dim(dim).extent == piece.dim(dim).global;
      for (int d = 0; d < piece.rank; d++)
        alike &= piece.dim(d).extent == first.dim(d).extent && piece.dim(d).stride == first.dim(d).stride;
      if (!alike) return false;
    }
    return apart % int64_t(SizeOf(first.dtype)) == 0;
  }
  static bool IsSingle(const TensorView& piece) {
    return std::all_of(piece.dims.begin(), piece.dims.begin() + piece.rank,
                       [](const DimView& dim) { return dim.extent == 1 && dim.global == 1; });
  }
  // Returns the view with one more dim inserted before `dim`.
  static TensorView Inserted(TensorView view, int dim, int64_t extent, int64_t stride) {
    std::copy_backward(view.dims.begin() + dim, view.dims.begin() + view.rank, view.dims.begin() + view.rank + 1);
    view.dims[size_t(dim)] = {extent, stride, 0, extent, extent};
    view.rank++;
    return view;
  }

  // If the pieces are single elements or Alike, one copy replaces a copy per piece, because a launch costs as much as
  // copying 16 MB.
  static void Concat(const KernelCall& call) {
    bool whole = call.out[0].dim(Dim(call)).extent == int64_t(call.in.size());
    if (whole && std::ranges::all_of(call.in, &IsSingle))
      return CopySingles(call, call.out[0], call.out[0].dim(Dim(call)).stride, call.in);
    if (Alike(call, Dim(call))) {
      const TensorView& first = call.in[0];
      int64_t count = int64_t(call.in.size()), length = first.dim(Dim(call)).extent;
      int64_t apart = (Address(call.in[1]) - Address(first)) / int64_t(SizeOf(first.dtype));
      TensorView to = call.out[0];
      to.dims[size_t(Dim(call))].extent = length;
      return CopyPieces(call, Inserted(to, Dim(call), count, length * to.dim(Dim(call)).stride),
                        Inserted(first, Dim(call), count, apart));
    }
    int64_t start = 0;
    for (const TensorView& part : call.in) {
      TensorView piece = Counted(call, part);
      CopyMeeting(call, Counted(call, call.out[0]), piece, Dim(call), start, true);
      start += piece.dim(Dim(call)).global;
    }
  }
};

}  // namespace weft
