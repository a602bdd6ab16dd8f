// How threads share the rows of a norm, and sums over the threads of a row.
//
// A row lies in registers: each of its threads holds 1 to 4 vectors of 16 bytes, neighbours in neighbouring threads.
// Where rows are short, a block takes several: threadIdx.x counts the threads of a row, threadIdx.y the rows.
#pragma once
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"

namespace weft::cuda {

struct RowGroups {
  int vectors = 0;     // of a row
  int per_thread = 0;  // 0: rows do not lie in registers
  int threads = 0;     // of a row: a power of two below a warp, or warps
  int rows = 0;        // of a block

  unsigned block() const { return unsigned(threads * rows); }
  dim3 shape() const { return {unsigned(threads), unsigned(rows)}; }
};

// What a kernel can take.
struct RowLimits {
  int usual;     // vectors of a thread, unless rows need the four that all can take
  int threads;   // of a block
  int resident;  // threads of a multiprocessor with one vector a thread, and half of that with more
};
inline constexpr RowLimits kForwardLimits{4, 1024, 2048}, kGradLimits{2, 512, 1024};

inline RowGroups GroupsOf(int64_t columns, int pack, const RowLimits& limits) {
  RowGroups groups;
  if (columns % pack != 0 || columns == 0 || columns / pack > 4 * limits.threads) return groups;
  groups.vectors = int(columns / pack);
  // A thread has about as much to do for a row as for one of its vectors.
  int64_t least = INT64_MAX;
  for (int n : {1, 2, 3, 4}) {
    int64_t warps = CeilDiv(groups.vectors, n * kWarp), work = warps * (1 + n);
    if (warps * kWarp > limits.threads || work >= least || (n > limits.usual && least != INT64_MAX)) continue;
    least = work, groups.per_thread = n;
  }
  int needed = int(CeilDiv(groups.vectors, groups.per_thread));
  groups.threads = int(RoundUp(needed, kWarp));
  if (needed <= kWarp / 2)
    for (groups.threads = 8; groups.threads < needed;) groups.threads *= 2;
  // Several rows, up to 256 threads, where as many threads find room.
  int room = groups.per_thread == 1 ? limits.resident : limits.resident / 2, most = 0;
  for (int rows = 1; rows == 1 || rows * groups.threads <= 256; rows++) {
    int used = room / (groups.threads * rows) * groups.threads * rows;
    if (used >= most) most = used, groups.rows = rows;
  }
  return groups;
}

// Room for sums over the warps of rows: two buffers used in turn, so that one barrier a sum is enough.
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

// Sums N values over the threads of a row, in a fixed order; every thread gets the sums. All threads of the warps that
// share a row call it, with `turn` 0 and 1 alternating.
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
  // The sums of the warps, repeated over the lanes with a period of the power of two that holds them.
  int from = lane & ((2 << (31 - __clz(warps - 1))) - 1);
#pragma unroll
  for (int n = 0; n < N; n++) value[n] = from < warps ? buffer.of[turn][n][first + from] : C(0);
  SumOverLanes(value, warps);
}

// The vectors of one thread: numbers u * threads + thread. What lies beyond the row is zero.
template <class T, int U>
__device__ __forceinline__ void LoadVectors(const T* row, int vectors, Vector<T> (&to)[U]) {
#pragma unroll
  for (int u = 0; u < U; u++) {
    int at = u * int(blockDim.x) + int(threadIdx.x);
    to[u] = at < vectors ? Vector<T>::Load(row + at * kPack<T>) : Vector<T>{};
  }
}

}  // namespace weft::cuda
