// How threads share the rows of a norm, and sums over the threads of a row.
//
// A row lies in registers: each of its threads holds 1, 2 or 4 vectors of 16 bytes, neighbours in neighbouring threads.
// Where rows are short, a block takes several side by side.
#pragma once
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/convert.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/row_walk.cuh"

namespace weft::cuda {

inline constexpr int kShortBlock = 384;  // threads of a block of several rows

struct RowGroups {
  int vectors = 0;     // of a row
  int per_thread = 0;  // 1, 2 or 4; 0: rows do not lie in registers
  int threads = 0;     // of a row: a power of two below a warp, or warps
  int rows = 0;        // of a block

  int block() const { return threads * rows; }
  RowGroups() = default;
  RowGroups(int64_t columns, int pack, int most_threads) {
    if (columns % pack != 0 || columns == 0 || columns / pack > 4 * most_threads) return;
    vectors = int(columns / pack);
    // Two vectors a thread keep more loads under way, but not where many threads would hold nothing.
    int64_t with_one = RoundUp(vectors, kWarp), with_two = 2 * RoundUp(CeilDiv(vectors, 2), kWarp);
    per_thread = vectors > 1024 ? 4 : with_one <= 512 && 10 * with_two > 11 * with_one ? 1 : 2;
    int needed = int(CeilDiv(vectors, per_thread));
    threads = int(RoundUp(needed, kWarp));
    if (needed <= kWarp / 2)
      for (threads = 8; threads < needed;) threads *= 2;
    rows = std::max(1, kShortBlock / threads);
  }
};

// Room for sums over the warps of rows: two buffers used in turn, so that one barrier a sum is enough.
template <class C, int N>
struct RowSumBuffer {
  C of[2][N][kWarp];
};

// Sums N values over the `threads` of a row, in a fixed order; every thread gets the sums. All threads of the block
// call it together, with `turn` 0 and 1 alternating.
template <int N, class C>
__device__ __forceinline__ void SumOverRow(C (&value)[N], int threads, RowSumBuffer<C, N>& buffer, int turn) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2) {
    if (lane >= threads) continue;
#pragma unroll
    for (int n = 0; n < N; n++) value[n] += __shfl_xor_sync(~0u, value[n], lane);
  }
  if (threads <= kWarp) return;
  int warp = int(threadIdx.x) / kWarp, warps = threads / kWarp, first = int(threadIdx.x) / threads * warps;
  if (threadIdx.x % kWarp == 0)
#pragma unroll
    for (int n = 0; n < N; n++) buffer.of[turn][n][warp] = value[n];
  __syncthreads();
#pragma unroll
  for (int n = 0; n < N; n++) {
    value[n] = buffer.of[turn][n][first];
    for (int w = 1; w < warps; w++) value[n] += buffer.of[turn][n][first + w];
  }
}

// The vectors of one thread: numbers u * threads + lane. What lies beyond the row is zero.
template <class T, int U>
__device__ __forceinline__ void LoadVectors(const T* row, const RowGroups& groups, int lane, Pack16<T> (&to)[U]) {
#pragma unroll
  for (int u = 0; u < U; u++) {
    int at = u * groups.threads + lane;
    to[u] = at < groups.vectors ? reinterpret_cast<const Pack16<T>*>(row)[at] : Pack16<T>{};
  }
}

// Do the rows of a view begin at addresses for vectors?
template <class T>
bool RowsAligned(const TensorView& x) {
  if (!Aligned16(x.data)) return false;
  for (int d = 0; d + 1 < x.rank; d++)
    if (x.dim(d).extent > 1 && x.dim(d).stride % kPack<T> != 0) return false;
  return true;
}

}  // namespace weft::cuda
