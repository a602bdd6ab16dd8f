// The workspace of the rotary embedding: cosines and sines of the angles. Host code without CUDA.
#pragma once
#include "weft/core/ops/attention.h"
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Returns the number of pairs per head, R/2 for R rotated dims.
inline int64_t HalfOf(const KernelCall& call) { return RotatedDims(*call.attrs, call.in[0].dim(3).extent) / 2; }

// Bytes for two values per position and pair: cosines and sines, [T, R/2] each.
inline size_t RopeWorkspace(const KernelCall& call) {
  const TensorView& x = call.in[0];
  return 2 * size_t(x.dim(1).extent * HalfOf(call)) * SizeOf(AccumulateType(x.dtype));
}

}  // namespace weft::cuda
