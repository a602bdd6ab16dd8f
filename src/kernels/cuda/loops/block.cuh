// Sums and maxima over a warp and a block, in a fixed order, so that every run gives the same bits.
#pragma once
#include <cstdint>

#include "weft/kernels/cuda/plan/machine.h"

namespace weft::cuda {

struct SumOf {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a + b;
  }
};
struct MaxOf {
  template <class C>
  __device__ C operator()(C a, C b) const {
    return a > b ? a : b;
  }
};

// Every lane gets the result.
template <class C, class Fn>
__device__ __forceinline__ C WarpReduce(C value, Fn fn) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) value = fn(value, __shfl_xor_sync(~0u, value, lane));
  return value;
}

// Every thread gets the result. `shared` holds one element per warp and may be reused once the call returns. All
// threads of a one-dimensional block must call it, and its size must be a multiple of 32.
template <class C, class Fn>
__device__ C BlockReduce(C value, Fn fn, C* shared) {
  value = WarpReduce(value, fn);
  int warps = int(blockDim.x) / kWarp;
  if (warps == 1) return value;
  if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = value;
  __syncthreads();
  if (warps & (warps - 1)) {
    value = shared[0];
    for (int w = 1; w < warps; w++) value = fn(value, shared[w]);
  } else {  // every warp reduces the values of all warps
    value = shared[int(threadIdx.x) & (warps - 1)];
    for (int lane = warps / 2; lane > 0; lane /= 2) value = fn(value, __shfl_xor_sync(~0u, value, lane));
  }
  __syncthreads();
  return value;
}

// Returns whether this block is the last of `blocks` blocks that call with this ticket. The last block sees everything
// that the others wrote before their calls. The ticket counts from 0 back to 0, ready for the next kernel. All threads
// of a one-dimensional block must call it, once per kernel.
__device__ __forceinline__ bool ComesLast(uint32_t* ticket, uint32_t blocks) {
  __shared__ bool last;
  __threadfence();
  __syncthreads();
  if (threadIdx.x == 0) last = atomicInc(ticket, blocks - 1) == blocks - 1;
  __syncthreads();
  __threadfence();
  return last;
}

}  // namespace weft::cuda
