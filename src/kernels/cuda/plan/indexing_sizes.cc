#include "weft/kernels/cuda/plan/indexing_sizes.h"

#include <algorithm>
#include <bit>

#include "weft/kernels/common/nest.h"

namespace weft::cuda {
namespace {

bool Sorts(const KernelCall& call) { return call.in[1].dim(int(call.attrs->Int("dim"))).extent > kMostPairedIds; }

// Throws Error if there are too many for the 32 bits of a sort's entries.
RowSortLayout SortOf(const KernelCall& call) {
  if (!Sorts(call)) return RowSortLayout(0, 0, 1);
  int64_t count = call.in[1].NumElements(), elements = call.out[0].NumElements();
  WEFT_CHECK(count < int64_t(RowSortLayout::kMostEntries) && elements < INT32_MAX,
             "scatter_add on CUDA: 2^30 ids or 2^31 elements or more on one device; shard the operands");
  return RowSortLayout(uint32_t(count), uint32_t(elements), 1);
}

}  // namespace

size_t ScatterWorkspace(const KernelCall& call) { return size_t(call.out[0].CapacityElements()) * sizeof(uint32_t); }

ScatterAddLayout::ScatterAddLayout(const KernelCall& call) : sorts(Sorts(call)), sort(SortOf(call)) {
  if (!sorts) return;
  keys = size_t(RoundUp(call.in[1].NumElements() * int64_t(sizeof(int32_t)), 256));
  bytes = keys + sort.bytes();
}
size_t ScatterAddWorkspace(const KernelCall& call) { return ScatterAddLayout(call).bytes; }

SortLayout::SortLayout(const KernelCall& call) : lines(1), length(call.in[0].dim(int(call.attrs->Int("dim"))).extent) {
  const TensorView& x = call.in[0];
  for (int d = 0; d < x.rank; d++)
    if (d != int(call.attrs->Int("dim"))) lines *= x.dim(d).extent;
  tile = std::clamp(int64_t(std::bit_ceil(uint64_t(length))), kLeastTile, kMostTile);
  tiles = CeilDiv(length, tile);
  // A key of 4 or 8 bytes, and an index.
  size_t entry = SizeOf(x.dtype) == 8 ? 16 : 8;
  array = size_t(RoundUp(lines * length * int64_t(entry), 256));
  bytes = tiles > 1 ? 2 * array : array;
}
size_t SortWorkspace(const KernelCall& call) { return SortLayout(call).bytes; }

}  // namespace weft::cuda
