// Where rows begin: the walk over leading dims of tensors that have them in common.
#pragma once
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

// At(row) gives the offsets of the first element of that row in each view, row-major over the first `dims` dims. A view
// may be null.
Walk WalkRows(int dims, std::initializer_list<const TensorView*> views);
// May all rows be moved in vectors of v elements, 16 bytes or less of them?
bool RowsAligned(const TensorView& x, int64_t v);

}  // namespace weft::cuda
