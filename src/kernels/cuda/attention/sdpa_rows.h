// Values per query for the backward pass of attention.
#pragma once
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// lse and delta are [B, H, PaddedT()] in the accumulate type, head by head, so that a block of queries reads one
// contiguous range. lse is multiplied by `lse_factor`. It is +inf if every probability is to be 0, which holds for
// queries that see no key and for the padding. delta is the dot product of out and dout, and 0 in the padding.
template <class C>
struct SdpaRows {
  C *lse, *delta;
  constexpr int64_t At(const SdpaSizes& z, int b, int h) const { return (int64_t(b) * z.H + h) * z.PaddedT(); }
};
// Fills the rows in the call's workspace from out, lse and dout. C must be the accumulate type of the call's dtype.
template <class C>
SdpaRows<C> PrepareSdpaRows(const KernelCall& grad_call, C lse_factor);
// Computes dsinks [H] from the rows, if the call has sinks.
template <class C>
void GradSdpaSinks(const KernelCall& grad_call, const SdpaRows<C>& rows, C lse_factor);
// Computes the gradient of the bias, if the call has one. Afterwards the call's workspace has rows with a factor of 1.
void GradSdpaBias(const KernelCall& grad_call);
// Writes T for each sequence, then the number of keys that lengths leave it, as i32 [2, B]. Requires lengths.
void WriteSdpaLengths(const KernelCall& call, int32_t* to);
// Copies lse, which must be f32, to [B, H, T] without gaps.
void PackSdpaLse(const KernelCall& grad_call, float* to);

}  // namespace weft::cuda
