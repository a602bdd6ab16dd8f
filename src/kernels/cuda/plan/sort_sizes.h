// How Sort and TopK divide their work, and their workspace. Host code without CUDA.
#pragma once
#include <cstddef>
#include <cstdint>

#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Tiles of a line are sorted by one block each, then merged in passes. Each pass reads one array of entries and writes
// another.
struct SortLayout {
  static constexpr int64_t kMostTile = 1024, kLeastTile = 64;
  int64_t lines, length;    // of the dim that is sorted
  int64_t tile;             // entries per tile, a power of two
  int64_t tiles;            // per line
  size_t array = 0, bytes;  // bytes of one array of entries; total
  explicit SortLayout(const KernelCall& call);
};
size_t SortWorkspace(const KernelCall& call);

}  // namespace weft::cuda
