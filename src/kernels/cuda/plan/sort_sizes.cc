#include "weft/kernels/cuda/plan/sort_sizes.h"

#include <algorithm>
#include <bit>

#include "weft/kernels/common/nest.h"

namespace weft::cuda {

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
