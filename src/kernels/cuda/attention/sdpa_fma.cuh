// A warp's share of the products of f32 flash attention, by fused multiply-adds, which do not round the operands. It
// has the interface of TensorCoreWarp.
//
// Each lane has 2 * M rows and every eighth column of a product. The lanes form a grid of 4 rows by 8 columns: bits 1
// and 3 of the lane number are its row, bits 0, 2 and 4 its column. Two lanes next to each other, or next but one, then
// load the same 16 bytes of one of the factors, and shared memory serves half a warp at once.
#pragma once
#include "weft/kernels/cuda/attention/sdpa_tile.cuh"

namespace weft::cuda {

template <int M_>
struct FmaWarp {
  static constexpr int M = M_, kRows = 8 * M;
  using Element = float;
  using Float = float;
  static constexpr int Blocks(int columns) { return columns / 16; }
  // Probabilities [kRows, columns] pass between lanes through shared memory. Rows lie 8 banks apart.
  static constexpr int Pitch(int columns) { return columns + 8; }
  static constexpr size_t ScratchBytes(int columns) { return size_t(kRows) * size_t(Pitch(columns)) * sizeof(float); }

  static constexpr bool kTogether = false;
  static constexpr size_t kTileAlignment = 16;
  template <int Rows, int Columns>
  using Tile = SharedTile<Element, Rows, Columns>;

  explicit __device__ FmaWarp(void* scratch) : scratch_(static_cast<float*>(scratch)) {}
  static __device__ __forceinline__ int FirstRow() { return (Lane() >> 1 & 1) | (Lane() >> 2 & 2); }
  static __device__ __forceinline__ int FirstColumn() { return (Lane() & 1) | (Lane() >> 1 & 2) | (Lane() >> 2 & 4); }
  static constexpr __device__ int Row(int m, int half) { return (2 * m + half) * 4; }
  static constexpr __device__ int Column(int n, int e) { return (2 * n + e) * 8; }
  static __device__ __forceinline__ bool IsFirstOfRow() { return FirstColumn() == 0; }
  template <class Fn>
  static __device__ __forceinline__ float ReduceRow(float x, Fn fn) {
    x = fn(x, __shfl_xor_sync(~0u, x, 1));
    x = fn(x, __shfl_xor_sync(~0u, x, 4));
    return fn(x, __shfl_xor_sync(~0u, x, 16));
  }

  static __device__ __forceinline__ void Publish() {}
  template <class... Sums>
  static __device__ __forceinline__ void Wait(Sums&...) {}

  // Does the same as TensorCoreWarp::MultiplyTransposed.
  template <int K, int N, class X, class Y>
  __device__ __forceinline__ void MultiplyTransposed(const X& x, int x_row, const Y& y, float (&c)[M][N][4]) const {
#pragma unroll
    for (int i = 0; i < M * N * 4; i++) c[i / 4 / N][i / 4 % N][i % 4] = 0;
#pragma unroll 2
    for (int k = 0; k < K; k += 4) {
      Quad a[2 * M];
#pragma unroll
      for (int i = 0; i < 2 * M; i++) a[i] = Load(x.At(x_row + FirstRow() + Row(i / 2, i % 2), k));
#pragma unroll
      for (int j = 0; j < 2 * N; j++) {
        Quad b = Load(y.At(FirstColumn() + Column(j / 2, j % 2), k));
#pragma unroll
        for (int t = 0; t < 4; t++)
#pragma unroll
          for (int i = 0; i < 2 * M; i++) At(c, i, j) = fmaf(a[i].v[t], b.v[t], At(c, i, j));
      }
    }
  }

  template <int N, int NC, class Y>
  __device__ __forceinline__ void Multiply(const float (&p)[M][N][4], const Y& y, int column,
                                           float (&c)[M][NC][4]) const {
    constexpr int kPitch = Pitch(16 * N);
    __syncwarp();  // all lanes have read the previous contents
#pragma unroll
    for (int i = 0; i < 2 * M; i++)
#pragma unroll
      for (int j = 0; j < 2 * N; j++)
        scratch_[(FirstRow() + Row(i / 2, i % 2)) * kPitch + FirstColumn() + Column(j / 2, j % 2)] = At(p, i, j);
    __syncwarp();
#pragma unroll 1
    for (int k = 0; k < 16 * N; k += 4) {
      Quad a[2 * M];
#pragma unroll
      for (int i = 0; i < 2 * M; i++) a[i] = Load(scratch_ + (FirstRow() + Row(i / 2, i % 2)) * kPitch + k);
#pragma unroll
      for (int t = 0; t < 4; t++)
#pragma unroll
        for (int j = 0; j < 2 * NC; j += 4) {
          Quad b = Load(y.At(k + t, column + j * 8 + FirstColumn() * 4));
#pragma unroll
          for (int i = 0; i < 2 * M; i++)
#pragma unroll
            for (int u = 0; u < 4; u++) At(c, i, j + u) = fmaf(a[i].v[t], b.v[u], At(c, i, j + u));
        }
    }
  }

  static __device__ __forceinline__ int SumColumn(int n, int e) {
    return n / 2 * 32 + FirstColumn() * 4 + n % 2 * 2 + e;
  }

  template <int N, class X>
  static __device__ __forceinline__ void Put(const float (&c)[M][N][4], float factor, const X& x, int row) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++)
#pragma unroll
          for (int e = 0; e < 2; e++)
            *x.At(row + FirstRow() + Row(m, half), SumColumn(n, e)) = factor * c[m][n][2 * half + e];
  }

 private:
  using Quad = Pack<float, 4>;
  static __device__ __forceinline__ Quad Load(const float* at) { return *reinterpret_cast<const Quad*>(at); }
  // Returns the element in row i and column j of this lane's part.
  template <class C>
  static __device__ __forceinline__ auto& At(C& c, int i, int j) {
    return c[i / 2][j / 2][i % 2 * 2 + j % 2];
  }

  float* scratch_;
};

}  // namespace weft::cuda
