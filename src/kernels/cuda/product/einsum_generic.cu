// Einsum's own kernels: any strides, accumulated in the compute type.
//
// Products with rows and columns go by tiles in shared memory. Elementwise, outer and dot products, and those of a few
// rows, go by one sum per output. The library does not take these products. They are small or odd, and take little of a
// step's time.
#include <algorithm>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/convert.cuh"
#include "weft/kernels/cuda/loops/walk.cuh"
#include "weft/kernels/cuda/plan/einsum_sizes.h"
#include "weft/kernels/cuda/product/einsum_generic.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = kSumThreads;
constexpr int64_t kMostBlocks = 1 << 20;

// ---- Tiles: kTile x kTile outputs per block, kDepth terms at a time, 4 x 4 outputs per thread.

constexpr int kTile = 64, kDepth = 16, kSide = 4;
constexpr int kRow = kTile + 4;  // row pitch of a tile in shared memory: stores down a column hit different banks

struct TileProduct {
  int64_t batch, m, n, k, tiles_n, tiles;
  // Whether neighbouring threads load neighbouring terms (k) of the operand, which they do if the terms are contiguous
  // in storage.
  bool a_k_fast, b_k_fast;
  WideWalk<3> batches;  // out, a, b
  WideWalk<2> rows, columns, terms;
};

// Loads a tile [kDepth, kTile] of an operand. Elements outside the operand are zero.
template <class T, class C>
__device__ void LoadTile(C (&tile)[kDepth][kRow], const T* data, const int64_t* along, const int64_t* terms,
                         int64_t left, int64_t terms_left, bool k_fast) {
#pragma unroll
  for (int step = 0; step < kTile * kDepth / kThreads; step++) {
    int place = step * kThreads + int(threadIdx.x);
    int k = k_fast ? place % kDepth : place / kTile, i = k_fast ? place / kDepth : place % kTile;
    bool inside = i < left && k < terms_left;
    tile[k][i] = inside ? Widen(data[along[i] + terms[k]]) : C(0);
  }
}

template <class T, class Out>
__global__ void __launch_bounds__(kThreads) TileKernel(TileProduct p, Out* out, const T* a, const T* b) {
  using C = Compute<T>;
  __shared__ C tile_a[kDepth][kRow], tile_b[kDepth][kRow];
  __shared__ int64_t row_a[kTile], row_out[kTile], column_b[kTile], column_out[kTile], term_a[kDepth], term_b[kDepth];
  int64_t tile = blockIdx.x % p.tiles, row = tile / p.tiles_n * kTile, column = tile % p.tiles_n * kTile;
  int thread = int(threadIdx.x), i0 = thread / 16 * kSide, j0 = thread % 16 * kSide;
  if (thread < kTile && row + thread < p.m) {
    int64_t at[2] = {0, 0};
    p.rows.Advance(row + thread, at);
    row_out[thread] = at[0], row_a[thread] = at[1];
  }
  if (thread >= kTile && thread < 2 * kTile && column + thread - kTile < p.n) {
    int64_t at[2] = {0, 0};
    p.columns.Advance(column + thread - kTile, at);
    column_out[thread - kTile] = at[0], column_b[thread - kTile] = at[1];
  }
  for (int64_t batch = blockIdx.x / p.tiles; batch < p.batch; batch += gridDim.x / p.tiles) {
    int64_t base[3] = {0, 0, 0};
    p.batches.Advance(batch, base);
    C sum[kSide][kSide] = {};
    for (int64_t k0 = 0; k0 < p.k; k0 += kDepth) {
      if (thread < kDepth && k0 + thread < p.k) {
        int64_t at[2] = {0, 0};
        p.terms.Advance(k0 + thread, at);
        term_a[thread] = at[0], term_b[thread] = at[1];
      }
      __syncthreads();
      LoadTile(tile_a, a + base[1], row_a, term_a, p.m - row, p.k - k0, p.a_k_fast);
      LoadTile(tile_b, b + base[2], column_b, term_b, p.n - column, p.k - k0, p.b_k_fast);
      __syncthreads();
#pragma unroll
      for (int k = 0; k < kDepth; k++)
#pragma unroll
        for (int i = 0; i < kSide; i++)
#pragma unroll
          for (int j = 0; j < kSide; j++) sum[i][j] += tile_a[k][i0 + i] * tile_b[k][j0 + j];
    }
#pragma unroll
    for (int i = 0; i < kSide; i++)
#pragma unroll
      for (int j = 0; j < kSide; j++)
        if (row + i0 + i < p.m && column + j0 + j < p.n)
          out[base[0] + row_out[i0 + i] + column_out[j0 + j]] = Narrow<Out>(sum[i][j]);
  }
}

// ---- Sums: `outputs` outputs per block, each by kThreads / outputs threads, and terms split over gridDim.y.

struct SumProduct {
  int64_t count, k;   // outputs, and terms per output
  int64_t part;       // terms per split
  int outputs;        // per block: a power of two
  bool terms_fast;    // neighbouring threads take neighbouring terms instead of outputs
  WideWalk<3> walk;   // out, a, b
  WideWalk<2> terms;  // a, b
};

template <class T>
__device__ Compute<T> PartialSum(const SumProduct& p, const T* a, const T* b, int64_t begin, int64_t end,
                                 int64_t step) {
  Compute<T> sum = 0;
  for (int64_t k = begin; k < end; k += step) {
    int64_t at[2] = {0, 0};
    p.terms.Advance(k, at);
    sum += Widen(a[at[0]]) * Widen(b[at[1]]);
  }
  return sum;
}

// Writes outputs, or with `parts` the sums of split blockIdx.y as [splits, count].
template <class T, class Out>
__global__ void __launch_bounds__(kThreads)
    SumKernel(SumProduct p, Out* out, const T* a, const T* b, Compute<T>* parts) {
  using C = Compute<T>;
  __shared__ C sums[kThreads];
  int lanes = kThreads / p.outputs, thread = int(threadIdx.x);
  int mine = p.terms_fast ? thread / lanes : thread % p.outputs,
      lane = p.terms_fast ? thread % lanes : thread / p.outputs;
  int64_t begin = int64_t(blockIdx.y) * p.part, end = min(begin + p.part, p.k);
  for (int64_t first = int64_t(blockIdx.x) * p.outputs; first < p.count; first += int64_t(gridDim.x) * p.outputs) {
    int64_t output = first + mine, at[3] = {0, 0, 0};
    C sum = 0;
    if (output < p.count) {
      p.walk.Advance(output, at);
      sum = PartialSum(p, a + at[1], b + at[2], begin + lane, end, lanes);
    }
    if (lanes > 1) {
      __syncthreads();  // the sums of the last outputs have been read
      sums[lane * p.outputs + mine] = sum;
      for (int half = lanes / 2; half > 0; half /= 2) {
        __syncthreads();
        if (lane < half) sums[lane * p.outputs + mine] += sums[(lane + half) * p.outputs + mine];
      }
      if (lane == 0) sum = sums[mine];
    }
    if (lane != 0 || output >= p.count) continue;
    if (parts)
      parts[int64_t(blockIdx.y) * p.count + output] = sum;
    else
      out[at[0]] = Narrow<Out>(sum);
  }
}

// Adds the splits of each output in order.
template <class Out>
__global__ void __launch_bounds__(kThreads)
    AddParts(int64_t count, int splits, WideWalk<3> walk, Out* out, const Compute<Out>* parts) {
  int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    Compute<Out> sum = 0;
    for (int s = 0; s < splits; s++) sum += parts[s * count + i];
    int64_t at[3] = {0, 0, 0};
    walk.Advance(i, at);
    out[at[0]] = Narrow<Out>(sum);
  }
}

// ---- Copies.

template <class T, int N>
__global__ void __launch_bounds__(kThreads) CopyKernel(int64_t count, WideWalk<2> walk, T* to, const T* from) {
  int64_t step = int64_t(gridDim.x) * kThreads;
  for (int64_t i = int64_t(blockIdx.x) * kThreads + threadIdx.x; i < count; i += step) {
    int64_t at[2] = {0, 0};
    walk.Advance(i * N, at);
    *reinterpret_cast<Pack<T, N>*>(to + at[0]) = *reinterpret_cast<const Pack<T, N>*>(from + at[1]);
  }
}

// ------------------------------------------------------------------------------------------------ launchers

unsigned Blocks(int64_t wanted) { return unsigned(std::min(wanted, kMostBlocks)); }

template <class T, class Out>
void RunTiles(const KernelCall& call, const EinsumLabels& x) {
  int64_t tiles_n = CeilDiv(x.n, kTile), tiles = CeilDiv(x.m, kTile) * tiles_n;
  TileProduct p{x.batch,
                x.m,
                x.n,
                x.k,
                tiles_n,
                tiles,
                Contiguous(x.terms.inner_stride(0)),
                Contiguous(x.terms.inner_stride(1)),
                WideWalk<3>(x.batches),
                WideWalk<2>(x.rows),
                WideWalk<2>(x.columns),
                WideWalk<2>(x.terms)};
  int64_t batches = std::clamp<int64_t>(kMostBlocks / tiles, 1, x.batch);
  TileKernel<T, Out><<<unsigned(tiles * batches), kThreads, 0, DeviceOf(call).stream()>>>(
      p, call.out[0].as<Out>(), x.A(call).as<const T>(), x.B(call).as<const T>());
  WEFT_CUDA_LAUNCHED("einsum, tiles");
}

template <class T, class Out>
void RunSums(const KernelCall& call, const EinsumLabels& x, void* workspace, size_t workspace_bytes) {
  SumCut cut(x);
  if (PartBytes(call, x, cut) > workspace_bytes) cut.splits = 1;
  SumProduct p{x.outputs.Count(),   x.k, CeilDiv(x.k, cut.splits), cut.outputs, cut.terms_fast, WideWalk<3>(x.outputs),
               WideWalk<2>(x.terms)};
  Compute<T>* parts = cut.splits > 1 ? static_cast<Compute<T>*>(workspace) : nullptr;
  dim3 grid(Blocks(CeilDiv(p.count, cut.outputs)), unsigned(cut.splits));
  cudaStream_t stream = DeviceOf(call).stream();
  Out* out = call.out[0].as<Out>();
  SumKernel<T, Out><<<grid, kThreads, 0, stream>>>(p, out, x.A(call).as<const T>(), x.B(call).as<const T>(), parts);
  WEFT_CUDA_LAUNCHED("einsum, sums");
  if (!parts) return;
  AddParts<Out><<<Blocks(CeilDiv(p.count, kThreads)), kThreads, 0, stream>>>(p.count, cut.splits, p.walk, out, parts);
  WEFT_CUDA_LAUNCHED("einsum, parts of sums");
}

template <class T, int N>
void LaunchCopy(const KernelCall& call, const Nest& loops, void* to, const void* from) {
  int64_t count = loops.Count() / N;
  CopyKernel<T, N><<<Blocks(CeilDiv(count, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(
      count, WideWalk<2>(loops), static_cast<T*>(to), static_cast<const T*>(from));
  WEFT_CUDA_LAUNCHED("einsum, copy");
}

// Returns whether all elements can move `n` at a time.
bool MovesAs(const Nest& loops, int64_t n, const void* to, const void* from) {
  if (!Aligned16(to) || !Aligned16(from) || loops.rank == 0 || loops.inner_extent() % n != 0) return false;
  if (loops.inner_stride(0) != 1 || loops.inner_stride(1) != 1) return false;
  for (size_t d = 0; d + 1 < size_t(loops.rank); d++)
    if (loops.strides[d][0] % n != 0 || loops.strides[d][1] % n != 0) return false;
  return true;
}

template <class T>
void CopyAs(const KernelCall& call, const Nest& loops, void* to, const void* from) {
  if (MovesAs(loops, kPack<T>, to, from))
    LaunchCopy<T, kPack<T>>(call, loops, to, from);
  else
    LaunchCopy<T, 1>(call, loops, to, from);
}

}  // namespace

void CopyNest(const KernelCall& call, const Nest& loops, size_t element, void* to, const void* from) {
  if (element == 2)
    CopyAs<uint16_t>(call, loops, to, from);
  else if (element == 4)
    CopyAs<uint32_t>(call, loops, to, from);
  else
    CopyAs<uint64_t>(call, loops, to, from);
}

void GenericEinsum(const KernelCall& call, const EinsumLabels& labels, void* workspace, size_t workspace_bytes) {
  auto run = [&]<class T, class Out>(T, Out) {
    if (IsTiled(labels))
      RunTiles<T, Out>(call, labels);
    else
      RunSums<T, Out>(call, labels, workspace, workspace_bytes);
  };
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if (call.out[0].dtype == call.in[0].dtype)
      run(T(), T());
    else
      run(T(), Compute<T>());
  });
}

}  // namespace weft::cuda
