// The starts of rows: a walk over the leading dims that several tensors share.
#pragma once
#include <optional>

#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/plan/rows.h"

namespace weft::cuda {

// Returns a walk whose At(row) gives the offset of the row's first element in each view. Rows are row-major over the
// first `dims` dims. A view other than the first may be null. Throws Error for 2^31 rows or more.
Walk WalkRows(int dims, std::initializer_list<const TensorView*> views);
// Returns whether x can be moved in groups of v elements by accesses of at most 16 bytes: rows are contiguous, their
// lengths and strides are multiples of v, and the data is aligned to 16 bytes.
bool RowsAligned(const TensorView& x, int64_t v);

// Where the packs of a tensor are that is dense but for gaps between its rows, as in a slice. A pack is v elements in
// one access.
struct PackRows {
  FastDivide row;   // the packs of a row
  int64_t gap = 0;  // packs between rows; 0: there is no gap
  __device__ __forceinline__ int64_t At(int64_t pack) const {
    return gap == 0 ? pack : pack + row(uint32_t(pack)) * gap;
  }
};
// Returns nullopt if x is not such a tensor of whole packs of v elements, or is not aligned to 16 bytes.
std::optional<PackRows> PackRowsOf(const TensorView& x, int64_t v);

}  // namespace weft::cuda
