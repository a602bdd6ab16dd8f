// Shared by Gather, Scatter and ScatterAdd: ids along a dim, and the elements that they name.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/index.cuh"

namespace weft::cuda {

inline constexpr int kIndexThreads = 256;
inline int IndexedDim(const KernelCall& call) { return int(call.attrs->Int("dim")); }

// The ids of `index` along a dim. They name elements of `full`. An element of `moved` belongs to each id.
struct LineIds {
  const void* ids;
  bool wide;                                       // ids are i64, otherwise i32
  int64_t first, held;                             // this rank holds the elements [first, first + held) of the dim
  int64_t full_step, id_step, moved_step, length;  // strides along the dim; ids in a line

  LineIds(int dim, const TensorView& full, const TensorView& index, const TensorView& moved)
      : ids(index.data),
        wide(index.dtype == DType::kI64),
        first(full.dim(dim).offset),
        held(full.dim(dim).extent),
        full_step(full.dim(dim).stride),
        id_step(index.dim(dim).stride),
        moved_step(moved.dim(dim).stride),
        length(index.dim(dim).extent) {}

  // Returns the local index that the id at this offset names, or -1 if this rank does not hold it.
  __device__ __forceinline__ int64_t PlaceAt(int64_t at) const {
    int64_t id = wide ? static_cast<const int64_t*>(ids)[at] : static_cast<const int32_t*>(ids)[at];
    id -= first;
    return id >= 0 && id < held ? id : -1;
  }
};

// Returns the loops over all ids. Operands:
// - 0: the line of `full` in which the id names an element;
// - 1 and 2: the id and the element that belongs to it, or, with `whole_lines`, the lines that they are in;
// - 3: the number of the id in its line.
inline Nest OverIds(int dim, const TensorView& full, const TensorView& index, const TensorView& moved,
                    bool whole_lines = false) {
  Nest nest(kWalked);
  for (int d = 0; d < index.rank; d++) {
    int64_t id = index.dim(d).stride, element = moved.dim(d).stride;
    if (d != dim)
      nest.Add(index.dim(d).extent, {full.dim(d).stride, id, element, 0});
    else
      nest.Add(index.dim(d).extent, {0, whole_lines ? 0 : id, whole_lines ? 0 : element, 1});
  }
  nest.Collapse();
  return nest;
}

// Calls fn with a zero of the unsigned type of the dtype's size, because elements are moved as bits.
template <class Fn>
void DispatchBits(DType dtype, Fn&& fn) {
  switch (SizeOf(dtype)) {
    case 1:
      return fn(uint8_t{});
    case 2:
      return fn(uint16_t{});
    case 4:
      return fn(uint32_t{});
    default:
      return fn(uint64_t{});
  }
}

void ScatterAdd(const KernelCall& call);  // scatter_add.cu

}  // namespace weft::cuda
