// The starts of rows: a walk over the leading dims that several tensors share.
#pragma once
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

// Returns a walk whose At(row) gives the offset of the row's first element in each view. Rows are row-major over the
// first `dims` dims. A view other than the first may be null. Throws Error for 2^31 rows or more.
Walk WalkRows(int dims, std::initializer_list<const TensorView*> views);
// Returns whether x can be moved in groups of v elements by accesses of at most 16 bytes: rows are contiguous, their
// lengths and strides are multiples of v, and the data is aligned to 16 bytes.
bool RowsAligned(const TensorView& x, int64_t v);

}  // namespace weft::cuda
