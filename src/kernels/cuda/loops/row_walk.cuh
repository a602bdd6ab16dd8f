// Where rows begin: the walk over leading dims of tensors that have them in common.
#pragma once
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {

// At(row) gives the offsets of the first element of that row in each view, row-major over the first `dims` dims. A view
// may be null.
Walk WalkRows(int dims, std::initializer_list<const TensorView*> views);
// Elements of the last dim, and how many such rows there are. A rank that holds nothing has no rows.
int64_t ColumnsOf(const TensorView& x);
int64_t RowCount(const TensorView& x);

// May all rows be moved in vectors of v elements, 16 bytes or less of them?
bool RowsAligned(const TensorView& x, int64_t v);

}  // namespace weft::cuda
