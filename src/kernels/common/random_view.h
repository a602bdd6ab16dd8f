// The place of a Dropout's elements in the stream of random numbers.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft {

// The attributes start and size of Dropout and Sdpa say that an operand is a slice, in `dim`, of a larger tensor.
// Returns the view with the indices of that tensor, on which the random numbers depend.
inline TensorView InWhole(TensorView view, int dim, const Attrs& attrs) {
  if (!attrs.IntOr("size", 0)) return view;
  view.dims[size_t(dim)].offset += attrs.Int("start");
  view.dims[size_t(dim)].global = attrs.Int("size");
  return view;
}
inline TensorView InWhole(const TensorView& view, const Attrs& attrs) {
  return attrs.IntOr("size", 0) ? InWhole(view, int(attrs.Int("dim")), attrs) : view;
}

}  // namespace weft
