// Reduce: the elementwise reduction of several buffers in a fixed order. All CPU groups use it, so they give the same
// bits.
#pragma once
#include <cstdint>
#include <span>

#include "weft/core/base/dtype.h"
#include "weft/core/base/placement.h"

namespace weft {

// out[i] = inputs[0][i] op inputs[1][i] op ..., from left to right. 16-bit floats accumulate in f32 and are rounded
// once. A sum or max of bools is "or", a min is "and". NaN wins a max and a min. `out` may be one of the inputs.
void ReduceInRankOrder(std::span<const void* const> inputs, void* out, int64_t count, DType dtype, ReduceOp op);

}  // namespace weft
