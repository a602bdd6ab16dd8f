// The end of a sum that is split over blocks: joins their partial results [parts, outputs] to [outputs].
#pragma once
#include <algorithm>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/loops/block.cuh"

namespace weft::cuda {

// Each block joins kJoinOutputs neighbouring outputs, which in f32 are one sector of memory. They are few, so that many
// multiprocessors take part. Each thread has kJoinAtOnce parts in flight.
inline constexpr int kJoinOutputs = 8, kMostJoinThreads = 1024, kJoinAtOnce = 8;
inline unsigned JoinThreads(int64_t parts) {
  return unsigned(std::min<int64_t>(kMostJoinThreads, RoundUp(parts * kJoinOutputs, kWarp)));
}

// Returns the output to whose join this thread contributes. The first kJoinOutputs threads of a block get the results.
__device__ __forceinline__ int64_t JoinedOutput() {
  return int64_t(blockIdx.x) * kJoinOutputs + threadIdx.x % kJoinOutputs;
}

// Returns the join of all parts of JoinedOutput(), in the first kJoinOutputs threads. `part` points to the output's
// place in part 0, or is null if there is no such output; `stride` is the distance to the next part. All threads of a
// block of JoinThreads threads must call it.
template <class A, class Fn>
__device__ __forceinline__ A JoinedParts(const A* part, int parts, int64_t stride, A identity, Fn join) {
  __shared__ A shared[kMostJoinThreads / kWarp][kJoinOutputs];
  int rows = int(blockDim.x) / kJoinOutputs, warps = int(blockDim.x) / kWarp;
  A total = identity;
  int first = int(threadIdx.x) / kJoinOutputs;
  int64_t step = rows * stride;
  part = part ? part + first * stride : nullptr;
  for (int p = first; p < parts && part; p += kJoinAtOnce * rows) {
    A held[kJoinAtOnce];
#pragma unroll
    for (int n = 0; n < kJoinAtOnce; n++, part += step) held[n] = p + n * rows < parts ? *part : identity;
#pragma unroll
    for (int n = 0; n < kJoinAtOnce; n++) total = join(total, held[n]);
  }
#pragma unroll
  for (int lane = kJoinOutputs; lane < kWarp; lane *= 2) total = join(total, __shfl_xor_sync(~0u, total, lane));
  int warp = int(threadIdx.x) / kWarp, output = int(threadIdx.x) % kJoinOutputs;
  if (threadIdx.x % kWarp < kJoinOutputs) shared[warp][output] = total;
  __syncthreads();
  if (warp > 0) return total;
  total = shared[0][output];
  for (int w = 1; w < warps; w++) total = join(total, shared[w][output]);
  return total;
}

}  // namespace weft::cuda
