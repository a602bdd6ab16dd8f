// A reduce-scatter of one kernel per rank: each rank loads its chunk of every peer's gradient directly from mapped
// memory, adds in f32 in rank order, and writes, or adds to a gradient, and sums the squares of the result.
//   BarrierWords words = ...;   SquareSum squares = ...;
//   ReduceScatter<4, true, true><<<8, kScatterThreads, 0, stream>>>(chunks, words, gradient, n, squares);
// The ranks meet inside the kernel: block b waits only for the blocks with number b of the other ranks. A block that
// has started occupies a multiprocessor until its peers have started. This cannot stop a job as long as all kernels
// that wait for other ranks fit on a GPU at the same time, because every other kernel ends by itself. So grids are
// small.
#pragma once
#include <cuda/atomic>

#include "communicator.h"

constexpr int kScatterThreads = 512, kMostBlocks = 64;

// The words of a barrier between blocks with the same number. Word [from * kMostBlocks + block] in a rank's memory is
// the number of barriers that this block of rank `from` has reached. It only grows, so nothing is cleared, a rank that
// is early at the next barrier does no harm, and every replay of a graph is right. The words of a rank in its own
// memory are its own counts.
struct BarrierWords {
  uint32_t* of[kMaxRanks];  // each rank's memory
  int rank, ranks;
  __device__ uint32_t* At(int memory, int from) const { return of[memory] + from * kMostBlocks + blockIdx.x; }
};

// Waits until the block with this number has made as many barriers on every rank. All threads of a block call it.
// Writes of all threads of these blocks, and of earlier kernels of their streams, are visible afterwards, and
// their loads are done: the first barrier of a kernel admits to the peers' gradients, the last releases one's own.
__device__ inline void Meet(const BarrierWords& words, uint32_t count) {
  using Word = cuda::atomic_ref<uint32_t, cuda::thread_scope_system>;
  __syncthreads();  // the release below covers the accesses of all threads
  const int peer = int(threadIdx.x);
  if (peer < words.ranks && peer != words.rank) {
    Word(*words.At(peer, words.rank)).store(count, cuda::memory_order_release);
    const Word arrived(*words.At(words.rank, peer));
    while (int32_t(arrived.load(cuda::memory_order_acquire) - count) < 0) {
    }
  }
  __syncthreads();  // no thread loads before every peer has arrived
}

// The sum of squares of a kernel's results. Blocks leave partial sums, and the last block to end adds them in the
// order of their numbers, so a grid gives the same bits in every run.
struct SquareSum {
  double* partial;  // [blocks]
  uint32_t* ended;  // 0 between kernels
  double* sum;
};

// Adds the threads' values to the sum. All threads of all blocks of a kernel call it, with 1024 threads at most.
__device__ inline void Finish(double mine, const SquareSum& squares) {
  __shared__ double of_warp[32];
  for (int step = 16; step > 0; step /= 2) mine += __shfl_down_sync(~0u, mine, step);
  if (threadIdx.x % 32 == 0) of_warp[threadIdx.x / 32] = mine;
  __syncthreads();
  if (threadIdx.x != 0) return;
  double block = 0, all = 0;
  for (unsigned w = 0; w < blockDim.x / 32; ++w) block += of_warp[w];
  squares.partial[blockIdx.x] = block;
  cuda::atomic_ref<uint32_t, cuda::thread_scope_device> ended(*squares.ended);
  if (ended.fetch_add(1, cuda::memory_order_acq_rel) + 1 < gridDim.x) return;
  for (unsigned b = 0; b < gridDim.x; ++b) all += squares.partial[b];
  *squares.sum = all;
  ended.store(0, cuda::memory_order_relaxed);
}

// Two vectors of 16 bytes: 8 elements of f32.
struct Eight {
  __device__ void Load(const float* from, size_t i) {
    raw[0] = reinterpret_cast<const float4*>(from)[2 * i], raw[1] = reinterpret_cast<const float4*>(from)[2 * i + 1];
  }
  __device__ void Store(float* to, size_t i) const {
    reinterpret_cast<float4*>(to)[2 * i] = raw[0], reinterpret_cast<float4*>(to)[2 * i + 1] = raw[1];
  }
  __device__ float& at(int e) { return reinterpret_cast<float*>(raw)[e]; }
  float4 raw[2];
};

// Reduces kVectors vectors of 8 elements that are `stride` vectors apart. All loads from the peers are in flight at
// the same time; those of the gradient that is added to are up to kAhead vectors ahead of their use, as far as the
// registers reach. Returns the sum of squares of the results.
template <int kRanks, int kVectors, bool kAdd, bool kSquares>
__device__ double ReduceVectors(const Chunks& chunks, float* out, size_t first, size_t stride) {
  constexpr int kAhead = kVectors < 4 ? kVectors : 4;
  uint4 raw[kVectors][kRanks];
  Eight held[kVectors];
#pragma unroll
  for (int v = 0; v < kVectors; ++v)
#pragma unroll
    for (int p = 0; p < kRanks; ++p) raw[v][p] = reinterpret_cast<const uint4*>(chunks.part[p])[first + v * stride];
#pragma unroll
  for (int v = 0; v < kAhead; ++v)
    if (kAdd) held[v].Load(out, first + v * stride);
  double squares = 0;
#pragma unroll
  for (int v = 0; v < kVectors; ++v) {
    Eight sum = {};
#pragma unroll
    for (int p = 0; p < kRanks; ++p)
#pragma unroll
      for (int e = 0; e < 8; ++e) sum.at(e) += __bfloat162float(reinterpret_cast<const bf16*>(&raw[v][p])[e]);
    if (kAdd && v + kAhead < kVectors) held[v + kAhead].Load(out, first + (v + kAhead) * stride);
    float of_vector = 0;
#pragma unroll
    for (int e = 0; e < 8; ++e) {
      if (kAdd) sum.at(e) = held[v].at(e) + sum.at(e);
      of_vector = fmaf(sum.at(e), sum.at(e), of_vector);
    }
    sum.Store(out, first + v * stride);
    if (kSquares) squares += of_vector;
  }
  return squares;
}

// out[n] = the sum of the chunks in rank order, or out + that sum. Requires kRanks ranks, n in multiples of 8, and an
// equal grid of at most kMostBlocks blocks on all ranks. The gradients may be rewritten by the next kernel of a stream.
template <int kRanks, bool kAdd, bool kSquares>
__global__ void __launch_bounds__(kScatterThreads, 1)
    ReduceScatter(const __grid_constant__ Chunks chunks, const __grid_constant__ BarrierWords words, float* out,
                  size_t n, const __grid_constant__ SquareSum squares) {
  constexpr int kVectors = 16 / kRanks;  // 64 registers of loads
  uint32_t* own = words.At(words.rank, words.rank);
  const uint32_t count = *own;
  Meet(words, count + 1);
  const size_t vectors = n / 8, stride = size_t(gridDim.x) * blockDim.x;
  size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x;
  double mine = 0;
  for (; i + (kVectors - 1) * stride < vectors; i += kVectors * stride)
    mine += ReduceVectors<kRanks, kVectors, kAdd, kSquares>(chunks, out, i, stride);
  for (; i < vectors; i += stride) mine += ReduceVectors<kRanks, 1, kAdd, kSquares>(chunks, out, i, stride);
  Meet(words, count + 2);
  if (threadIdx.x == 0) *own = count + 2;
  if (kSquares) Finish(mine, squares);
}

template <typename T>
struct alignas(4 * sizeof(T)) Four {
  T at[4];
};

// out[n] += in[n], and the sum of squares of the result: the pass that follows a reduce-scatter of a library.
template <typename In>
__global__ void AddPass(const In* in, float* out, size_t n, SquareSum squares) {
  double mine = 0;
  for (size_t i = blockIdx.x * size_t(blockDim.x) + threadIdx.x; i < n / 4; i += size_t(gridDim.x) * blockDim.x) {
    const Four<In> x = reinterpret_cast<const Four<In>*>(in)[i];
    Four<float> y = reinterpret_cast<Four<float>*>(out)[i];
    float of_vector = 0;
    for (int e = 0; e < 4; ++e) y.at[e] += float(x.at[e]), of_vector = fmaf(y.at[e], y.at[e], of_vector);
    reinterpret_cast<Four<float>*>(out)[i] = y;
    mine += of_vector;
  }
  Finish(mine, squares);
}
