// The workspace of the rotary embedding: cosines and sines of the angles. Host code without CUDA.
#pragma once
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

inline int64_t HalfOf(const TensorView& x) { return x.dim(3).extent / 2; }  // pairs per head

// Bytes for two values per position and pair: cosines and sines, [T, D/2] each.
inline size_t RopeWorkspace(const KernelCall& call) {
  const TensorView& x = call.in[0];
  return 2 * size_t(x.dim(1).extent * HalfOf(x)) * SizeOf(AccumulateType(x.dtype));
}

}  // namespace weft::cuda
