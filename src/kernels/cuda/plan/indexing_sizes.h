// The workspaces of Scatter and ScatterAdd. Host code without CUDA.
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

}  // namespace weft::cuda
