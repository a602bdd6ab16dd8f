// Tiles of flash attention in shared memory, asynchronous copies into them, and the running softmax. Requires compute
// capability 8.0 or newer.
#pragma once
#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {

__device__ __forceinline__ uint32_t SharedAddress(const void* data) { return uint32_t(__cvta_generic_to_shared(data)); }

// Begins to copy 16 bytes from global to shared memory. If not `valid`, writes zeros and reads nothing.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsync4(void* to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}
// Waits for all copies of this thread. Other threads see them after a barrier.
__device__ __forceinline__ void CopyWait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Returns 2^x, which is 0 for -inf. The relative error is below 2^-22.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ int Lane() { return int(threadIdx.x) % 32; }

// A tile [Rows, Columns] in shared memory. Rows are padded by 16 bytes to an odd number of 16-byte units, so that eight
// rows at one column lie in different banks.
template <class E, int Rows, int Columns>
struct SharedTile {
  static constexpr int kUnit = 16 / int(sizeof(E));  // elements
  static constexpr int kPitch = Columns + kUnit;
  static constexpr int kElements = Rows * kPitch;
  static_assert(Columns % (2 * kUnit) == 0);
  E* data;

  __device__ E* At(int row, int column) const { return data + row * kPitch + column; }

  // Begins to copy `rows` rows of `columns` elements, with zeros beyond them. All threads must call it. `wide`: rows
  // are whole units at multiples of 16 bytes, as 16-bit rows always are.
  template <int Threads>
  __device__ __forceinline__ void Fetch(const E* from, int64_t stride, int rows, int columns, bool wide) const {
    if constexpr (sizeof(E) == 4)
      if (!wide) return FetchElements<Threads>(from, stride, rows, columns);
    constexpr int kUnits = Columns / kUnit;
#pragma unroll
    for (int i = int(threadIdx.x); i < Rows * kUnits; i += Threads) {
      int row = i / kUnits, column = i % kUnits * kUnit;
      bool valid = row < rows && column < columns;
      CopyAsync16(At(row, column), valid ? from + row * stride + column : from, valid);
    }
  }
  // Copies rows [row, row + Count) of the tile to `to`, which receives row `row` first, but at most `rows` rows
  // and `columns` columns. Called by one warp.
  template <int Count>
  __device__ __forceinline__ void Store(int row, E* to, int64_t stride, int rows, int columns, bool wide) const {
    if constexpr (sizeof(E) == 4)
      if (!wide) return StoreElements<Count>(row, to, stride, rows, columns);
    constexpr int kUnits = Columns / kUnit;
    for (int i = Lane(); i < Count * kUnits; i += 32) {
      int r = i / kUnits, column = i % kUnits * kUnit;
      if (r < rows && column < columns)
        *reinterpret_cast<uint4*>(to + r * stride + column) = *reinterpret_cast<const uint4*>(At(row + r, column));
    }
  }

 private:
  template <int Threads>
  __device__ __forceinline__ void FetchElements(const E* from, int64_t stride, int rows, int columns) const {
#pragma unroll 1
    for (int i = int(threadIdx.x); i < Rows * Columns; i += Threads) {
      int row = i / Columns, column = i % Columns;
      bool valid = row < rows && column < columns;
      CopyAsync4(At(row, column), valid ? from + row * stride + column : from, valid);
    }
  }
  template <int Count>
  __device__ __forceinline__ void StoreElements(int row, E* to, int64_t stride, int rows, int columns) const {
    for (int i = Lane(); i < Count * Columns; i += 32) {
      int r = i / Columns, column = i % Columns;
      if (r < rows && column < columns) to[r * stride + column] = *At(row + r, column);
    }
  }
};

// The running softmax of a warp's queries. Each lane has rows [M][2] of them. Warp is how lanes share rows and columns
// (TensorCoreWarp, FmaWarp).
template <class Warp>
struct Softmax {
  static constexpr int M = Warp::M;
  float top[M][2], sum[M][2];  // maximum of the unscaled scores; sum over this lane's columns only

  __device__ Softmax() {
    for (int m = 0; m < M; m++)
      for (int half = 0; half < 2; half++) top[m][half] = -INFINITY, sum[m][half] = 0;
  }

  // Turns the scores s into exp2(scale_log2 * (s - top)), and rescales the sums that o already holds.
  template <int N, int NO>
  __device__ __forceinline__ void Step(float (&s)[M][N][4], float (&o)[M][NO][4], float scale_log2) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float largest = top[m][half];
#pragma unroll
        for (int n = 0; n < N; n++) largest = fmaxf(largest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        largest = Warp::ReduceRow(largest, [](float a, float b) { return fmaxf(a, b); });
        float base =
            largest == -INFINITY ? 0 : __fmul_rn(largest, scale_log2);  // a row that has seen no key stays at 0
        // Rounded in the same way as base. A fused product minus base would not be 0 if the maximum stays, and every
        // step would rescale.
        float factor = Exp2(__fmul_rn(top[m][half], scale_log2) - base);
        top[m][half] = largest;
        float total = sum[m][half] * factor;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++) total += s[m][n][e] = Exp2(s[m][n][e] * scale_log2 - base);
        sum[m][half] = total;
#pragma unroll
        for (int n = 0; n < NO; n++) o[m][n][2 * half] *= factor, o[m][n][2 * half + 1] *= factor;
      }
  }
};

}  // namespace weft::cuda
