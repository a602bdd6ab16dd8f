// What flash attention is made of: tiles of 16-bit floats in shared memory, asynchronous copies into them, and products
// of the tensor cores on fragments of them. Compute capability 8.0 and newer.
//
// mma.m16n8k16: C [16, 8] += A [16, 16] B [16, 8]. Lane l has row l / 4 and columns 2 (l % 4), + 1 of every 8 x 8
// piece.
//   C: c[0], c[1] in rows 0-7, c[2], c[3] in rows 8-15.
//   A: a[0] rows 0-7, a[1] rows 8-15 of columns 0-7; a[2], a[3] the same of columns 8-15.
//   B: one column l / 4; b0 rows 2 (l % 4), + 1, b1 the same + 8.
// So two neighbours of C, packed, are an A: c of the first gives a[0], a[1], c of the second a[2], a[3].
#pragma once
#include "kernels/cuda/convert.cuh"

namespace weft::cuda {

template <class T>
concept TensorCoreFloat = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;

__device__ __forceinline__ uint32_t SharedAddress(const void* data) { return uint32_t(__cvta_generic_to_shared(data)); }

// 16 bytes from global to shared memory; zeros, and nothing read, where not `valid`.
__device__ __forceinline__ void CopyAsync16(void* to, const void* from, bool valid) {
  asm volatile("cp.async.cg.shared.global [%0], [%1], 16, %2;" ::"r"(SharedAddress(to)), "l"(from), "r"(valid ? 16 : 0)
               : "memory");
}
// Waits for all copies of this thread; a barrier then shows them to the others.
__device__ __forceinline__ void CopyWait() { asm volatile("cp.async.wait_all;" ::: "memory"); }

__device__ __forceinline__ void LoadMatrices(const uint16_t* at, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(at))
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(const uint16_t* at, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.trans.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(at))
               : "memory");
}

template <TensorCoreFloat T>
__device__ __forceinline__ void Mma(float (&c)[4], const uint32_t (&a)[4], uint32_t b0, uint32_t b1) {
  if constexpr (std::is_same_v<T, BF16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Two floats, the first in the low half.
template <TensorCoreFloat T>
__device__ __forceinline__ uint32_t PackPair(float first, float second) {
  if constexpr (std::is_same_v<T, BF16>) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<uint32_t&>(pair);
  } else {
    __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<uint32_t&>(pair);
  }
}
// The A whose columns are two neighbours of C.
template <TensorCoreFloat T>
__device__ __forceinline__ void PackA(const float (&left)[4], const float (&right)[4], uint32_t (&a)[4]) {
  a[0] = PackPair<T>(left[0], left[1]), a[1] = PackPair<T>(left[2], left[3]);
  a[2] = PackPair<T>(right[0], right[1]), a[3] = PackPair<T>(right[2], right[3]);
}

// 2^x; 0 for -inf.
__device__ __forceinline__ float Exp2(float x) {
  float y;
  asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(x));
  return y;
}

// A tile [Rows, Columns] in shared memory. Rows are 16 bytes apart beyond what they hold, an odd number of 16-byte
// units, so that the eight rows of a matrix lie in different banks.
template <int Rows, int Columns>
struct SharedTile {
  static constexpr int kPitch = Columns + 8;
  static constexpr int kElements = Rows * kPitch;
  static_assert(Columns % 16 == 0);
  uint16_t* data;

  __device__ uint16_t* At(int row, int column) const { return data + row * kPitch + column; }

  // [16, 16] at a place, as A.
  __device__ __forceinline__ void LoadA(int row, int column, uint32_t (&a)[4]) const {
    int lane = int(threadIdx.x) % 32;
    LoadMatrices(At(row + lane % 16, column + lane / 16 * 8), a);
  }
  // The transpose of [16, 16] at a place, as two B: b[0], b[1] have the first 8 rows as columns, b[2], b[3] the others.
  __device__ __forceinline__ void LoadRowsAsB(int row, int column, uint32_t (&b)[4]) const {
    int lane = int(threadIdx.x) % 32;
    LoadMatrices(At(row + lane % 8 + lane / 16 * 8, column + lane / 8 % 2 * 8), b);
  }
  // [16, 16] at a place, as two B: b[0], b[1] are the first 8 columns, b[2], b[3] the others.
  __device__ __forceinline__ void LoadB(int row, int column, uint32_t (&b)[4]) const {
    int lane = int(threadIdx.x) % 32;
    LoadMatricesTransposed(At(row + lane % 16, column + lane / 16 * 8), b);
  }

  // Begins to copy `rows` rows of `columns` elements, a multiple of 8; zeros beyond. All threads take part.
  template <int Threads>
  __device__ __forceinline__ void Fetch(const uint16_t* from, int64_t stride, int rows, int columns) const {
    constexpr int kChunks = Columns / 8;
#pragma unroll
    for (int i = int(threadIdx.x); i < Rows * kChunks; i += Threads) {
      int row = i / kChunks, column = i % kChunks * 8;
      bool valid = row < rows && column < columns;
      CopyAsync16(At(row, column), valid ? from + row * stride + column : from, valid);
    }
  }
  // Copies rows [row, row + Count) to `to`, where row `row` begins, but no more than `rows` rows and `columns` columns.
  // By one warp.
  template <int Count>
  __device__ __forceinline__ void Store(int row, uint16_t* to, int64_t stride, int rows, int columns) const {
    constexpr int kChunks = Columns / 8;
    for (int i = int(threadIdx.x) % 32; i < Count * kChunks; i += 32) {
      int r = i / kChunks, column = i % kChunks * 8;
      if (r < rows && column < columns)
        *reinterpret_cast<uint4*>(to + r * stride + column) = *reinterpret_cast<const uint4*>(At(row + r, column));
    }
  }
};

// c [16 * M, 16 * N] += X Y^T over K columns: rows [x_row, ...) of X, all rows of Y. One warp's share of the product.
template <TensorCoreFloat T, int M, int N, int K, class X, class Y>
__device__ __forceinline__ void MultiplyTransposed(const X& x, int x_row, const Y& y, float (&c)[M][2 * N][4]) {
#pragma unroll
  for (int k = 0; k < K; k += 16) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; m++) x.LoadA(x_row + m * 16, k, a[m]);
#pragma unroll
    for (int n = 0; n < N; n++) {
      uint32_t b[4];
      y.LoadRowsAsB(n * 16, k, b);
#pragma unroll
      for (int m = 0; m < M; m++) {
        Mma<T>(c[m][2 * n], a[m], b[0], b[1]);
        Mma<T>(c[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// c [16 * M, 16 * N] += P Y: P [16 * M, 16 * K] from registers, rounded; columns [column, ...) of Y.
template <TensorCoreFloat T, int M, int N, int K, class Y>
__device__ __forceinline__ void MultiplyPacked(const float (&p)[M][2 * K][4], const Y& y, int column,
                                               float (&c)[M][2 * N][4]) {
#pragma unroll
  for (int k = 0; k < K; k++) {
    uint32_t a[M][4];
#pragma unroll
    for (int m = 0; m < M; m++) PackA<T>(p[m][2 * k], p[m][2 * k + 1], a[m]);
#pragma unroll
    for (int n = 0; n < N; n++) {
      uint32_t b[4];
      y.LoadB(k * 16, column + n * 16, b);
#pragma unroll
      for (int m = 0; m < M; m++) {
        Mma<T>(c[m][2 * n], a[m], b[0], b[1]);
        Mma<T>(c[m][2 * n + 1], a[m], b[2], b[3]);
      }
    }
  }
}

// Puts factor * c [16 * M, 16 * N], rounded, at (row, 0) of a tile. One warp.
template <TensorCoreFloat T, int M, int N, class X>
__device__ __forceinline__ void StoreFragments(const float (&c)[M][2 * N][4], float factor, const X& x, int row) {
  int lane = int(threadIdx.x) % 32;
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int n = 0; n < 2 * N; n++)
#pragma unroll
      for (int half = 0; half < 2; half++)
        *reinterpret_cast<uint32_t*>(x.At(row + m * 16 + half * 8 + lane / 4, n * 8 + lane % 4 * 2)) =
            PackPair<T>(factor * c[m][n][2 * half], factor * c[m][n][2 * half + 1]);
}

}  // namespace weft::cuda
