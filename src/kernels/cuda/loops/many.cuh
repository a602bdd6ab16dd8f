// Kernels that take many tensors by one launch: a table of them among the arguments, each with its first block.
#pragma once
#include <cstdint>

namespace weft::cuda {

// The entry that the block works on: the last of `count` whose `first` is not behind it. Entries are in order of
// `first`, and entries[0].first is 0.
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
