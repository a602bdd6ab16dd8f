// dQ as sums that blocks of keys add to in any order: one pass over the scores instead of two, for runs that need not
// give the same bits again. Products are those of 16-bit floats, sums are f32.
#pragma once
#include <nv/target>

#include "weft/kernels/cuda/attention/sdpa_mma.cuh"
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// dQ belongs to another pass (FlashGradQ).
struct NoQuerySums {
  template <class Shape>
  struct Adder {
    static constexpr size_t kBytes = 0;  // of shared memory
    __device__ __forceinline__ Adder(const NoQuerySums&, const SdpaSizes&, int, void*) {}
    template <class Scores>
    __device__ __forceinline__ void Put(const Scores&, int) const {}
    template <class Keys>
    __device__ __forceinline__ void Add(const Keys&, int, int, int) const {}
  };
};

// Adds four floats at a multiple of 16 bytes.
__device__ __forceinline__ void AtomicAdd(float* to, const float4& x) {
  NV_IF_ELSE_TARGET(NV_PROVIDES_SM_90, (atomicAdd(reinterpret_cast<float4*>(to), x);),
                    (atomicAdd(to, x.x); atomicAdd(to + 1, x.y); atomicAdd(to + 2, x.z); atomicAdd(to + 3, x.w);))
}

// The sums [B, H, PaddedT(), D], before the scale.
struct QuerySums {
  float* data;

  __device__ __forceinline__ float* At(const SdpaSizes& z, int b, int h, int i) const {
    return data + ((int64_t(b) * z.H + h) * z.PaddedT() + i) * z.D;
  }

  // The share of a block of keys. The warps put the cotangents of the scores of their keys into shared memory. Then
  // each takes 16 queries and some of the block's columns. Warps of a warpgroup have the same columns.
  template <class Shape>
  struct Adder {
    using Element = typename Shape::Element;
    using Warp = typename Shape::Warp::Narrow;  // of 16 queries
    using Cotangents = typename Warp::template Tile<Shape::kKeys, Shape::kQueries>;
    static constexpr int kRows = Shape::kQueries / 16;            // warps with the same columns
    static constexpr int kShares = Shape::kThreads / 32 / kRows;  // warps with the same queries
    static constexpr int kColumns = Shape::kColumns / kShares, kBlocks = Warp::Blocks(kColumns);
    static constexpr size_t kBytes = Cotangents::kElements * sizeof(Element);
    static_assert(kShares * kRows * 32 == Shape::kThreads && kBlocks % 2 == 0);

    const QuerySums& sums;
    const SdpaSizes& z;
    Cotangents cotangents;  // [kKeys, kQueries]
    int b, row, share;

    __device__ __forceinline__ Adder(const QuerySums& of_call, const SdpaSizes& sizes, int sequence, void* memory)
        : sums(of_call), z(sizes), cotangents{static_cast<Element*>(memory)}, b(sequence) {
      int warp = int(threadIdx.x) / 32;
      row = warp % kRows * 16, share = warp / kRows * kColumns;
    }
    template <class Scores>
    __device__ __forceinline__ void Put(const Scores& ds, int warp_row) const {
      Shape::Warp::Put(ds, 1, cotangents, warp_row);
      Warp::Publish();
    }
    // Adds to the queries from `query` on of head h, in the columns from `column` on. All threads must call it.
    template <class Keys>
    __device__ __forceinline__ void Add(const Keys& keys, int h, int query, int column) const {
      __syncthreads();         // the cotangents of all warps are there
      float c[1][kBlocks][4];  // [16, kColumns]
      Warp::template MultiplyLeftTransposed<Shape::kKeys>(cotangents, row, keys, column + share, c);
      Warp::Wait(c);
      bool odd = Lane() % 2;
      int first = column + share + Lane() % 4 / 2 * 4;
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float* to = sums.At(z, b, h, query + row + Warp::FirstRow() + Warp::Row(0, half));
#pragma unroll
        for (int n = 0; n < kBlocks; n += 2) {
          // Two neighbours have two columns each of four in two pieces. Each takes all four of one piece.
          float *own = c[0][n] + 2 * half, *next = c[0][n + 1] + 2 * half;
          float got[2];
#pragma unroll
          for (int e = 0; e < 2; e++) got[e] = __shfl_xor_sync(~0u, odd ? own[e] : next[e], 1);
          float4 four = odd ? float4{got[0], got[1], next[0], next[1]} : float4{own[0], own[1], got[0], got[1]};
          int at = first + (odd ? n + 1 : n) * 8;
          if (at < z.D) AtomicAdd(to + at, four);
        }
      }
    }
  };
};

// Whether the warps of a GradKVShape multiply 16-bit floats on the tensor cores.
template <class Shape>
inline constexpr bool HasQuerySums = HalfFloat<typename Shape::Warp::Float>;

// Sets the sums in the call's workspace, after the rows of SdpaRows, to 0.
QuerySums ClearQuerySums(const KernelCall& grad_call);
// Stores the scaled sums as dq.
void RoundQuerySums(const KernelCall& grad_call, const QuerySums& sums);

}  // namespace weft::cuda
