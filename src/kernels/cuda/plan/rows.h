// The rows of a tensor, along its last dim. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Elements of the last dim, and how many such rows there are. A rank that holds nothing has no rows.
int64_t ColumnsOf(const TensorView& x);
int64_t RowCount(const TensorView& x);

}  // namespace weft::cuda
