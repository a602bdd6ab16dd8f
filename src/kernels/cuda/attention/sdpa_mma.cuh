// A warp's share of the products of flash attention on the tensor cores, by mma.sync: 16-bit floats, and f32 as TF32 or
// as sums of two TF32. Requires compute capability 8.0 or newer.
//
// mma.m16n8k16: C [16, 8] += A [16, 16] B [16, 8]. Lane l has row l / 4 and columns 2 (l % 4) and 2 (l % 4) + 1 of
// every 8 x 8 piece.
//   C: c[0], c[1] in rows 0-7, c[2], c[3] in rows 8-15.
//   A: a[0] rows 0-7, a[1] rows 8-15 of columns 0-7; a[2], a[3] the same rows of columns 8-15.
//   B: one column, l / 4; b0 rows 2 (l % 4) and 2 (l % 4) + 1, b1 the rows 8 further down.
// Two neighbours of C, packed, are therefore an A: c of the first gives a[0], a[1], c of the second a[2], a[3].
//
// mma.m16n8k8 of TF32: C is as above. In A [16, 8] and B [8, 8] a lane has one column or row, l % 4, instead of the two
// neighbours above, and 4 takes the place of 8. A product may take the terms of a sum in any order if A and B agree.
// Here, terms l % 4 and l % 4 + 4 are columns 2 (l % 4) and 2 (l % 4) + 1 of C, so that one C is an A as it stands.
#pragma once
#include <nv/target>

#include "weft/kernels/cuda/attention/sdpa_tile.cuh"

namespace weft::cuda {

struct TF32 {};  // products of f32 elements, rounded to 11 significant bits
// Products of f32 elements, each as the sum of two TF32, x = top + rest, with an error of at most 2^-23 of x. A product
// is rest * top + top * rest + top * top. It omits rest * rest, which is below 2^-24 of it (Ootomo and Yokota 2022). An
// infinite factor makes it NaN.
struct TwoTF32 {};

template <class T>
concept HalfFloat = std::is_same_v<T, BF16> || std::is_same_v<T, F16>;
template <class T>
concept TensorCoreFloat = HalfFloat<T> || std::is_same_v<T, TF32> || std::is_same_v<T, TwoTF32>;

__device__ __forceinline__ void LoadMatrices(const void* at, uint32_t (&r)[4]) {
  asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0, %1, %2, %3}, [%4];"
               : "=r"(r[0]), "=r"(r[1]), "=r"(r[2]), "=r"(r[3])
               : "r"(SharedAddress(at))
               : "memory");
}
__device__ __forceinline__ void LoadMatricesTransposed(const void* at, uint32_t (&r)[4]) {
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
  else if constexpr (std::is_same_v<T, F16>)
    asm volatile(
        "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
  else
    asm volatile(
        "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, "
        "{%0, %1, %2, %3};"
        : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
        : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b0), "r"(b1));
}

// Rounds to the nearest TF32. Otherwise the product would truncate the other bits, which biases all sums in one
// direction.
__device__ __forceinline__ uint32_t RoundTf32(float x) {
  uint32_t y;
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90,
                    (asm("cvt.rn.tf32.f32 %0, %1;"
                         : "=r"(y)
                         : "f"(x));),
                    (asm("cvt.rna.tf32.f32 %0, %1;"
                         : "=r"(y)
                         : "f"(x));))
  return y;
}

// N registers of a factor, as products take them.
template <TensorCoreFloat T, int N>
struct Factor {
  uint32_t top[N];

  // Turns registers as they were loaded into those that products take.
  __device__ __forceinline__ void Prepare() {
    if constexpr (!HalfFloat<T>)
#pragma unroll
      for (uint32_t& x : top) x = RoundTf32(__uint_as_float(x));
  }
};
template <int N>
struct Factor<TwoTF32, N> {
  uint32_t top[N], rest[N];

  // The top is rounded by integer operations, of which a multiprocessor does four times as many as of conversions. The
  // product truncates the rest, which has 12 bits of any sign, to 11.
  __device__ __forceinline__ void Prepare() {
#pragma unroll
    for (int i = 0; i < N; i++) {
      float x = __uint_as_float(top[i]);
      top[i] = (top[i] + 0x1000u) & 0xffffe000u;
      rest[i] = __float_as_uint(x - __uint_as_float(top[i]));
    }
  }
};

// Sums [16 M, 8 N] of a lane.
template <int M, int N>
__device__ __forceinline__ void ClearSums(float (&c)[M][N][4]) {
#pragma unroll
  for (int i = 0; i < M * N * 4; i++) c[i / 4 / N][i / 4 % N][i % 4] = 0;
}
// Adds to columns 8 n and on.
template <int M, int N, int NC>
__device__ __forceinline__ void AddSums(const float (&from)[M][N][4], int n, float (&to)[M][NC][4]) {
#pragma unroll
  for (int i = 0; i < M * N * 4; i++) to[i / 4 / N][n + i / 4 % N][i % 4] += from[i / 4 / N][i / 4 % N][i % 4];
}

// The sums of products with a rest, of which only TwoTF32 has any. They are apart from those of tops, which are 2^11
// times as large, because tensor cores truncate a sum with each product that they add to it.
template <TensorCoreFloat T, int M, int N>
struct RestSums {
  __device__ __forceinline__ void AddTo(float (&)[M][N][4]) const {}
};
template <int M, int N>
struct RestSums<TwoTF32, M, N> {
  float c[M][N][4];
  __device__ __forceinline__ RestSums() { ClearSums(c); }
  __device__ __forceinline__ void AddTo(float (&to)[M][N][4]) const { AddSums(c, 0, to); }
};

// Packs two floats, the first in the low half.
template <HalfFloat T>
__device__ __forceinline__ uint32_t PackPair(float first, float second) {
  if constexpr (std::is_same_v<T, BF16>) {
    __nv_bfloat162 pair = __floats2bfloat162_rn(first, second);
    return reinterpret_cast<uint32_t&>(pair);
  } else {
    __half2 pair = __floats2half2_rn(first, second);
    return reinterpret_cast<uint32_t&>(pair);
  }
}

// A warp has 16 * M rows of a product. Fragments are c[M][Blocks(columns)][4]. Element [m][n][2 * half + e] lies in row
// FirstRow() + Row(m, half) and column FirstColumn() + Column(n, e).
template <TensorCoreFloat T, int M_>
struct TensorCoreWarp {
  static constexpr int M = M_, kRows = 16 * M;
  using Element = std::conditional_t<HalfFloat<T>, uint16_t, float>;
  using Float = std::conditional_t<HalfFloat<T>, T, float>;  // the type of an element's value
  static constexpr int kTerms = HalfFloat<T> ? 16 : 8;       // terms of a sum per instruction
  static constexpr int kUnit = kTerms / 2;                   // elements in 16 bytes, a row of what ldmatrix loads
  static constexpr int Blocks(int columns) { return columns / 8; }
  static constexpr bool kTogether = false;  // whether all warps take part in every step
  static constexpr size_t kTileAlignment = 16;
  template <int Rows, int Columns>
  using Tile = SharedTile<Element, Rows, Columns>;
  using Narrow = TensorCoreWarp<T, 1>;  // the same with 16 rows

  static __device__ __forceinline__ int FirstRow() { return Lane() / 4; }
  static __device__ __forceinline__ int FirstColumn() { return Lane() % 4 * 2; }
  static constexpr __device__ int Row(int m, int half) { return m * 16 + half * 8; }
  static constexpr __device__ int Column(int n, int e) { return n * 8 + e; }
  static __device__ __forceinline__ bool IsFirstOfRow() { return Lane() % 4 == 0; }
  template <class Fn>
  static __device__ __forceinline__ float ReduceRow(float x, Fn fn) {
    x = fn(x, __shfl_xor_sync(~0u, x, 1));
    return fn(x, __shfl_xor_sync(~0u, x, 2));
  }

  // Lets products read this thread's writes to shared memory after the next barrier.
  static __device__ __forceinline__ void Publish() {}
  // Waits for all products. Before that they may still be adding to their sums c.
  template <class... Sums>
  static __device__ __forceinline__ void Wait(Sums&...) {}

  // Computes c [kRows, columns] = X Y^T over K columns, with rows [x_row, x_row + kRows) of X and all rows of Y.
  template <int K, int N, class X, class Y>
  __device__ __forceinline__ void MultiplyTransposed(const X& x, int x_row, const Y& y, float (&c)[M][N][4]) const {
    RestSums<T, M, N> rests;
    ClearSums(c);
#pragma unroll
    for (int k = 0; k < K; k += kTerms) {
      Factor<T, 4> a[M];
#pragma unroll
      for (int m = 0; m < M; m++) {
        LoadMatrices(x.At(x_row + m * 16 + Lane() % 16, k + Lane() / 16 * kUnit), a[m].top);
        a[m].Prepare();
      }
#pragma unroll
      for (int n = 0; n < N / 2; n++) {
        Factor<T, 4> b;  // two B: the first 8 rows of Y are the columns of the first
        LoadMatrices(y.At(n * 16 + Lane() % 8 + Lane() / 16 * 8, k + Lane() / 8 % 2 * kUnit), b.top);
        b.Prepare();
        AddProducts(a, b, 2 * n, c, rests);
      }
    }
    rests.AddTo(c);
  }

  // Computes c [kRows, columns] += P Y with columns [column, ...) of Y. P [kRows, Y's rows] comes from registers and is
  // rounded. Element [m][n][2 * half + e] of c lies in column SumColumn(n, e).
  template <int N, int NC, class Y>
  __device__ __forceinline__ void Multiply(const float (&p)[M][N][4], const Y& y, int column,
                                           float (&c)[M][NC][4]) const {
    constexpr int kSteps = N * 8 / kTerms;
    if constexpr (std::is_same_v<T, TwoTF32>) {
      // Tensor cores would truncate c, which gets many such products. So each begins at zero and is added outside of
      // them.
      Factor<T, 4> a[kSteps][M];
#pragma unroll
      for (int k = 0; k < kSteps; k++) TakeFactor(p, k, a[k]);
#pragma unroll
      for (int n = 0; n < NC; n += kWide) {
        float sums[M][kWide][4];
        RestSums<T, M, kWide> rests;
        ClearSums(sums);
#pragma unroll
        for (int k = 0; k < kSteps; k++) MultiplyWide(a[k], y, k * kTerms, column + n * 8, 0, sums, rests);
        rests.AddTo(sums);
        AddSums(sums, n, c);
      }
    } else {
#pragma unroll
      for (int k = 0; k < kSteps; k++) {
        Factor<T, 4> a[M];
        TakeFactor(p, k, a);
        MultiplyRows(a, y, k * kTerms, column, c);
      }
    }
  }

  // Computes c [kRows, columns] = X^T Y over their first K rows, with columns [x_column, x_column + kRows) of X and
  // those from `column` on of Y.
  template <int K, int NC, class X, class Y>
  static __device__ __forceinline__ void MultiplyLeftTransposed(const X& x, int x_column, const Y& y, int column,
                                                                float (&c)[M][NC][4]) requires HalfFloat<T> {
    ClearSums(c);
#pragma unroll
    for (int k = 0; k < K; k += kTerms) {
      Factor<T, 4> a[M];
#pragma unroll
      for (int m = 0; m < M; m++)
        LoadMatricesTransposed(x.At(k + Lane() % 8 + Lane() / 16 * 8, x_column + m * 16 + Lane() / 8 % 2 * 8),
                               a[m].top);
      MultiplyRows(a, y, k, column, c);
    }
  }

  static __device__ __forceinline__ int SumColumn(int n, int e) {
    if constexpr (HalfFloat<T>)
      return n * 8 + Lane() % 4 * 2 + e;
    else
      return n / 4 * 32 + Lane() % 4 * 8 + e * 4 + n % 4;
  }

  // Stores factor * c, rounded to Element, at (row, 0) of a tile.
  template <int N, class X>
  static __device__ __forceinline__ void Put(const float (&c)[M][N][4], float factor, const X& x, int row) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int n = 0; n < N; n++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          int r = row + FirstRow() + Row(m, half);
          float first = factor * c[m][n][2 * half], second = factor * c[m][n][2 * half + 1];
          if constexpr (HalfFloat<T>)
            *reinterpret_cast<uint32_t*>(x.At(r, SumColumn(n, 0))) = PackPair<T>(first, second);
          else
            *x.At(r, SumColumn(n, 0)) = first, *x.At(r, SumColumn(n, 1)) = second;
        }
  }

 private:
  static constexpr int kWide = 4;  // blocks of columns that a lane loads at once

  // Computes c[m][n + i] += A[m] B[i] for two B of two registers each.
  template <int N>
  static __device__ __forceinline__ void AddProducts(const Factor<T, 4> (&a)[M], const Factor<T, 4>& b, int n,
                                                     float (&c)[M][N][4], RestSums<T, M, N>& rests) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int i = 0; i < 2; i++) {
        if constexpr (std::is_same_v<T, TwoTF32>) {
          Mma<T>(rests.c[m][n + i], a[m].rest, b.top[2 * i], b.top[2 * i + 1]);
          Mma<T>(rests.c[m][n + i], a[m].top, b.rest[2 * i], b.rest[2 * i + 1]);
        }
        Mma<T>(c[m][n + i], a[m].top, b.top[2 * i], b.top[2 * i + 1]);
      }
  }

  // Takes the columns of P of one step as a left factor.
  template <int N>
  static __device__ __forceinline__ void TakeFactor(const float (&p)[M][N][4], int k, Factor<T, 4> (&a)[M]) {
#pragma unroll
    for (int m = 0; m < M; m++) {
      uint32_t(&to)[4] = a[m].top;
      if constexpr (HalfFloat<T>)
        to[0] = PackPair<T>(p[m][2 * k][0], p[m][2 * k][1]), to[1] = PackPair<T>(p[m][2 * k][2], p[m][2 * k][3]),
        to[2] = PackPair<T>(p[m][2 * k + 1][0], p[m][2 * k + 1][1]),
        to[3] = PackPair<T>(p[m][2 * k + 1][2], p[m][2 * k + 1][3]);
      else
        to[0] = __float_as_uint(p[m][k][0]), to[1] = __float_as_uint(p[m][k][2]), to[2] = __float_as_uint(p[m][k][1]),
        to[3] = __float_as_uint(p[m][k][3]);
      a[m].Prepare();
    }
  }

  // Computes columns [8 n, 8 n + 32) of c += A Y', where Y' is rows [row, row + kTerms) of Y from `column` on. The
  // columns of one B lie 4 apart, so that a lane loads its column of all four B at once.
  template <int N, class Y>
  static __device__ __forceinline__ void MultiplyWide(const Factor<T, 4> (&a)[M], const Y& y, int row, int column,
                                                      int n, float (&c)[M][N][4], RestSums<T, M, N>& rests) {
    const float* from = y.At(row + Lane() % 4 * 2, column + Lane() / 4 * 4);
    Pack<float, 4> first = *reinterpret_cast<const Pack<float, 4>*>(from),
                   second = *reinterpret_cast<const Pack<float, 4>*>(from + Y::kPitch);
#pragma unroll
    for (int i = 0; i < kWide; i += 2) {
      Factor<T, 4> b;
      b.top[0] = __float_as_uint(first.v[i]), b.top[1] = __float_as_uint(second.v[i]);
      b.top[2] = __float_as_uint(first.v[i + 1]), b.top[3] = __float_as_uint(second.v[i + 1]);
      b.Prepare();
      AddProducts(a, b, n + i, c, rests);
    }
  }

  // Computes c += A Y', where Y' is rows [row, row + kTerms) of Y.
  template <int NC, class Y>
  static __device__ __forceinline__ void MultiplyRows(const Factor<T, 4> (&a)[M], const Y& y, int row, int column,
                                                      float (&c)[M][NC][4]) requires(!std::is_same_v<T, TwoTF32>) {
    RestSums<T, M, NC> rests;  // none
    if constexpr (HalfFloat<T>) {
#pragma unroll
      for (int n = 0; n < NC / 2; n++) {
        Factor<T, 4> b;  // two B of 8 columns each
        LoadMatricesTransposed(y.At(row + Lane() % 16, column + n * 16 + Lane() / 16 * 8), b.top);
        AddProducts(a, b, 2 * n, c, rests);
      }
    } else {
#pragma unroll
      for (int n = 0; n < NC; n += kWide) MultiplyWide(a, y, row, column + n * 8, n, c, rests);
    }
  }
};

}  // namespace weft::cuda
