// Kernels that process many tensors in one launch: their arguments hold a table of tensors, each with its first block.
#pragma once
#include <cstdint>

namespace weft::cuda {

// Returns the entry that `block` works on: the last of `count` entries whose `first` is not after `block`. Entries are
// sorted by `first`, and entries[0].first is 0.
template <class Entry>
__device__ __forceinline__ const Entry& EntryOf(const Entry* entries, int count, uint32_t block) {
  int low = 0, high = count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (entries[middle].first <= block ? low : high) = middle;
  }
  return entries[low];
}

}  // namespace weft::cuda
