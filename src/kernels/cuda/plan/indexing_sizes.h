// The workspaces of Scatter, ScatterAdd, Sort and TopK. Host code without CUDA.
#pragma once
#include "weft/kernels/cuda/plan/embedding_sizes.h"

namespace weft::cuda {

// Scatter: for each element of the result the position of the last id that names it, u32.
size_t ScatterWorkspace(const KernelCall& call);

// With at most this many ids in a line, ScatterAdd compares all pairs of them. With more, it sorts them.
inline constexpr int64_t kMostPairedIds = 256;

// ScatterAdd with a sort: the element of the result that each id names, i32, then the workspace of the sort.
struct ScatterAddLayout {
  bool sorts;
  RowSortLayout sort;
  size_t keys = 0, bytes = 0;  // offset of the sort's workspace; total
  explicit ScatterAddLayout(const KernelCall& call);
};
size_t ScatterAddWorkspace(const KernelCall& call);

// Sort and TopK. Tiles of a line are sorted by one block each, then merged in passes. Each pass reads one array of
// entries and writes another.
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
