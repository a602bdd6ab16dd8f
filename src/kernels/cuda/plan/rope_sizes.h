// The workspace of the rotary embedding: cosines and sines of the angles. Host code without CUDA.
#pragma once
#include "weft/core/ops/attention.h"
#include "weft/core/runtime/kernel.h"

namespace weft::cuda {

// Returns the number of pairs per head, R/2 for R rotated dims.
inline int64_t HalfOf(const KernelCall& call) { return RotatedDims(*call.attrs, call.in[0].dim(3).extent) / 2; }

// Returns the number of angles of a call: one per position and pair, [T, R/2], for each sequence if it has offsets.
inline int64_t AnglesOf(const KernelCall& call) {
  const TensorView& x = call.in[0];
  return (call.in.size() > 1 ? x.dim(0).extent : 1) * x.dim(1).extent * HalfOf(call);
}

// Bytes for two values per angle: cosines and sines.
inline size_t RopeWorkspace(const KernelCall& call) {
  return 2 * size_t(AnglesOf(call)) * SizeOf(AccumulateType(call.in[0].dtype));
}

}  // namespace weft::cuda
