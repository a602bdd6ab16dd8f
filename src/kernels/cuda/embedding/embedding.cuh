// Shared by embedding and the gradient of its table: ids, and where the rows lie that belong to them.
#pragma once
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"

namespace weft::cuda {

// Ids in place, and where each id's row of the other tensor starts (operand 0: ids, 1: rows).
struct Ids {
  Walk walk;
  const void* data;
  bool wide;         // ids are i64, otherwise i32
  int64_t first, n;  // rows that this rank holds: [first, first + n)

  Ids(const TensorView& ids, const TensorView& rows_of, const DimView& table)
      : data(ids.data), wide(ids.dtype == DType::kI64), first(table.offset), n(table.extent) {
    Nest nest(2);
    for (int d = 0; d < ids.rank; d++) nest.Add(ids.dim(d).extent, {ids.dim(d).stride, rows_of.dim(d).stride});
    nest.Collapse();
    WEFT_CHECK(nest.Count() <= INT32_MAX, "embedding on CUDA: more than 2^31 ids on one device; shard the batch");
    if (nest.Count() > 0)
      walk = Walk(nest, {});
    else
      walk.steps = 0;
  }
  // Returns the local row of an id, or -1 if this rank does not hold it.
  __device__ __forceinline__ int64_t RowAt(int64_t at) const {
    int64_t id = wide ? static_cast<const int64_t*>(data)[at] : static_cast<const int32_t*>(data)[at];
    id -= first;
    return id >= 0 && id < n ? id : -1;
  }
};

void EmbeddingGrad(const KernelCall& call);

}  // namespace weft::cuda
