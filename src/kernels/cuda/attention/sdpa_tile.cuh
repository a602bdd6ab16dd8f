// Tiles of flash attention in shared memory, asynchronous copies into them, and the running softmax. Requires compute
// capability 8.0 or newer.
#pragma once
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/shared_address.cuh"

namespace weft::cuda {

// Begins to copy 16 bytes from global to shared memory. If not `valid`, writes zeros and reads nothing.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
__device__ __forceinline__ void CopyAsync4(void* to, const void* from, bool valid) {
  asm volatile("cp.async.ca.shared.global [%0], [%1], 4, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(valid ? 4 : 0)
               : "memory");
}
// Ends a group of copies. CopyWaitBut waits for all groups but the last kPending.
__device__ __forceinline__ void CopyCommit() { asm volatile("cp.async.commit_group;" ::: "memory"); }
template <int kPending>
__device__ __forceinline__ void CopyWaitBut() {
  asm volatile("cp.async.wait_group %0;" ::"n"(kPending) : "memory");
}
// Waits for all copies of this thread. Other threads see them after a barrier.
__device__ __forceinline__ void CopyWait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

// Waits for all copies of all threads of the block, after which products of Warp may read what they fetched.
template <class Warp>
__device__ __forceinline__ void CopyWaitAll() {
  CopyWait();
  Warp::Publish();
  __syncthreads();
}

// Returns 2^x, which is 0 for -inf. The relative error is below 2^-22.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

__device__ __forceinline__ int Lane() { return int(threadIdx.x) % 32; }

// Where the elements of a tile [Rows, Columns] lie. Rows are padded by 16 bytes to an odd number of 16-byte units, so
// that eight rows at one column lie in different banks.
template <class E, int Rows, int Columns>
struct PaddedRows {
  static constexpr int kUnit = 16 / int(sizeof(E)), kPitch = Columns + kUnit, kElements = Rows * kPitch;
  static_assert(Columns % (2 * kUnit) == 0);
  static __device__ __forceinline__ int Offset(int row, int column) { return row * kPitch + column; }
};
// The same as the 128-byte swizzle of Hopper's products and copies has it: panels of 128 bytes of all rows, in which
// the units of eight rows change places. A tile begins at a multiple of 1024 bytes.
template <class E, int Rows, int Columns>
struct SwizzledRows {
  static constexpr int kUnit = 16 / int(sizeof(E)), kPanel = 8 * kUnit, kElements = Rows * Columns;
  static_assert(Columns % kPanel == 0 && Rows % 8 == 0);
  static __device__ __forceinline__ int Offset(int row, int column) {
    return column / kPanel * (Rows * kPanel) + row * kPanel + ((column % kPanel / kUnit) ^ row % 8) * kUnit +
           column % kUnit;
  }
};

// A tile [Rows, Columns] in shared memory.
template <class E, int Rows, int Columns, template <class, int, int> class Layout = PaddedRows>
struct SharedTile : Layout<E, Rows, Columns> {
  using Place = Layout<E, Rows, Columns>;
  static constexpr int kRows = Rows, kUnit = Place::kUnit;  // elements in 16 bytes
  E* data;

  explicit __device__ __forceinline__ SharedTile(E* at) : data(at) {}
  __device__ __forceinline__ E* At(int row, int column) const { return data + Place::Offset(row, column); }

  // Begins to copy `rows` rows of `columns` elements, with zeros beyond them. All threads must call it. `wide`: rows
  // are whole units at multiples of 16 bytes, as 16-bit rows always are.
  template <int Threads>
  __device__ __forceinline__ void Fetch(const E* from, int64_t stride, int rows, int columns, bool wide) const {
    if constexpr (sizeof(E) == 4)
      if (!wide) return FetchElements<Threads>(from, stride, rows, columns);
    // A thread takes every kThreadRows-th row at one column, so it computes its places once.
    constexpr int kUnits = Columns / kUnit, kThreadRows = Threads / kUnits;
    if constexpr (Threads % kUnits == 0 && Rows % kThreadRows == 0) {
      int first = int(threadIdx.x) / kUnits, column = int(threadIdx.x) % kUnits * kUnit;
      const E* at = from + first * stride + column;
      bool inside = column < columns;
#pragma unroll
      for (int row = 0; row < Rows; row += kThreadRows) {
        bool valid = inside && first + row < rows;
        CopyAsync16(At(first + row, column), valid ? at + row * stride : from, valid);
      }
    } else {
#pragma unroll
      for (int i = int(threadIdx.x); i < Rows * kUnits; i += Threads) {
        int row = i / kUnits, column = i % kUnits * kUnit;
        bool valid = row < rows && column < columns;
        CopyAsync16(At(row, column), valid ? from + row * stride + column : from, valid);
      }
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
// (TensorCoreWarp, WarpgroupWarp).
template <class Warp>
struct Softmax {
  static constexpr int M = Warp::M;
  float top[M][2], sum[M][2];  // maximum of the unscaled scores; sum over this lane's columns only
  float factor[M][2];          // by which the last step changes earlier sums

  __device__ Softmax() {
    for (int m = 0; m < M; m++)
      for (int half = 0; half < 2; half++) top[m][half] = -INFINITY, sum[m][half] = 0;
  }

  // Turns the scores s into exp2(scale_log2 * (s - top)). The sums of earlier steps must be rescaled.
  template <int N>
  __device__ __forceinline__ void Step(float (&s)[M][N][4], float scale_log2) {
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
        factor[m][half] = Exp2(__fmul_rn(top[m][half], scale_log2) - base);
        top[m][half] = largest;
        float total = sum[m][half] * factor[m][half];
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++) total += s[m][n][e] = Exp2(s[m][n][e] * scale_log2 - base);
        sum[m][half] = total;
      }
  }
  template <int N>
  __device__ __forceinline__ void Rescale(float (&o)[M][N][4]) const {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int e = 0; e < 4; e++) o[m][n][e] *= factor[m][e / 2];
  }
};

}  // namespace weft::cuda
