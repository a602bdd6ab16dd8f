// Sums over the threads of a row of a norm. plan/norm_sizes.h decides how threads share rows.
//
// A row lies in registers. Each of its threads holds 1 to 4 vectors of 16 bytes, and neighbouring threads hold
// neighbouring vectors. If rows are short, a block takes several: threadIdx.x counts the threads of a row, threadIdx.y
// the rows.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"
#include "weft/kernels/cuda/plan/norm_sizes.h"

namespace weft::cuda {

inline dim3 ShapeOf(const RowGroups& groups) { return {unsigned(groups.threads), unsigned(groups.rows)}; }

// Room for sums over the warps of rows. Two buffers are used in turn, so that one barrier per sum is enough.
template <class C, int N>
struct RowSumBuffer {
  C of[2][N][kWarp];
};

template <int N, class C>
__device__ __forceinline__ void SumOverLanes(C (&value)[N], int lanes) {
  if (lanes >= kWarp) {
#pragma unroll
    for (int n = 0; n < N; n++) value[n] = WarpReduce(value[n], SumOf());
    return;
  }
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    if (lane >= lanes) continue;
#pragma unroll
    for (int n = 0; n < N; n++) value[n] += __shfl_xor_sync(~0u, value[n], lane);
  }
}

// Sums N values over the threads of a row, in a fixed order. Every thread gets the sums. All threads of the block must
// call it, with `turn` 0 and 1 alternating.
template <int N, class C>
__device__ __forceinline__ void SumOverRow(C (&value)[N], RowSumBuffer<C, N>& buffer, int turn) {
  int threads = int(blockDim.x), lane = int(threadIdx.x) % kWarp;
  SumOverLanes(value, threads);
  if (threads <= kWarp) return;
  int warps = threads / kWarp, first = int(threadIdx.y) * warps;
  if (lane == 0)
#pragma unroll
    for (int n = 0; n < N; n++) buffer.of[turn][n][first + int(threadIdx.x) / kWarp] = value[n];
  __syncthreads();
  // The sums of the warps, repeated over the lanes with a period of the smallest power of two that holds them.
  int from = lane & ((2 << (31 - __clz(warps - 1))) - 1);
#pragma unroll
  for (int n = 0; n < N; n++) value[n] = from < warps ? buffer.of[turn][n][first + from] : C(0);
  SumOverLanes(value, warps);
}

// Loads the vectors of one thread, which are numbers u * threads + thread. Vectors beyond the row are zero.
template <class T, int U>
__device__ __forceinline__ void LoadVectors(const T* row, int vectors, Vector<T> (&to)[U]) {
#pragma unroll
  for (int u = 0; u < U; u++) {
    int at = u * int(blockDim.x) + int(threadIdx.x);
    to[u] = at < vectors ? Vector<T>::Load(row + at * kPack<T>) : Vector<T>{};
  }
}

}  // namespace weft::cuda
