// What the backward pass of attention needs of each query.
#pragma once
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// [B, H, PaddedT()] in the accumulate type, head by head so that a block of queries reads it in one piece. lse is times
// `lse_factor`, and +inf where every probability is to be 0: for queries that see no key and for the padding. delta is
// the dot product of out and dout, 0 in the padding.
template <class C>
struct SdpaRows {
  C *lse, *delta;
  constexpr int64_t At(const SdpaSizes& z, int b, int h) const { return (int64_t(b) * z.H + h) * z.PaddedT(); }
};
// Fills the rows in the call's workspace from out, lse and dout. C is the accumulate type of the call's dtype.
template <class C>
SdpaRows<C> PrepareSdpaRows(const KernelCall& grad_call, C lse_factor);
// Copies lse, of type f32, to [B, H, T] without gaps.
void PackSdpaLse(const KernelCall& grad_call, float* to);

}  // namespace weft::cuda
