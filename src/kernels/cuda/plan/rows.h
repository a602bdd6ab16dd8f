// The rows of a tensor along its last dim. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// The extent of the last dim.
inline int64_t ColumnsOf(const TensorView& x) { return x.dim(x.rank - 1).extent; }
// The product of all other extents.
inline int64_t RowCount(const TensorView& x) {
  int64_t rows = 1;
  for (int d = 0; d + 1 < x.rank; d++) rows *= x.dim(d).extent;
  return rows;
}

}  // namespace weft::cuda
