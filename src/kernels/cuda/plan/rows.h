// The rows of a tensor along its last dim. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Return the extent of the last dim, and the product of all other extents.
int64_t ColumnsOf(const TensorView& x);
int64_t RowCount(const TensorView& x);

}  // namespace weft::cuda
