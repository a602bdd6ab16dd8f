// Flash attention, forward (Dao 2023). Each block owns a tile of queries and walks the keys with a running softmax.
// Scores live only in registers, and sums are f32.
#pragma once
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_tile.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/plan/sdpa_sizes.h"

namespace weft::cuda {

// D is the head size, padded with zeros. Warp is how a warp computes, which determines its number of queries. A step
// takes kKeys keys, which are fetched in `Stages` stages: two if shared memory has room, so that the next keys arrive
// while these are worked on. Sizes are chosen so that sums and scores fit in registers, and two blocks in a
// multiprocessor.
template <class Warp_, int D_, int Keys_, int Warps_ = 4, int Stages = 2>
struct ForwardShape {
  using Warp = Warp_;
  using Element = typename Warp::Element;
  static constexpr int D = D_, M = Warp::M, kKeys = Keys_, kStages = Stages;
  static constexpr int kWarps = Warps_, kThreads = 32 * kWarps;
  static constexpr int kQueries = Warp::kRows * kWarps;
  using Queries = SharedTile<Element, kQueries, D>;
  using Keys = SharedTile<Element, kKeys, D>;
  static constexpr size_t kTileBytes = (Queries::kElements + 2 * kStages * Keys::kElements) * sizeof(Element);
  static constexpr size_t kSharedBytes = kTileBytes + kWarps * Warp::ScratchBytes(kKeys);
};

// The work of one block: kQueries queries of a head, and the keys that they see.
template <class Shape>
struct ForwardBlock {
  static constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, M = Shape::M;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Keys = typename Shape::Keys;

  const SdpaSizes& z;
  const SdpaOperand &k, &v;
  Element* stages;  // kStages x (K, V [kKeys, D])
  int warp_row, b, h, g, first, rows, fewest, steps;

  // The last tiles of a head see the most keys, so their blocks begin first. Neighbouring blocks share K and V in the
  // L2 cache.
  __device__ __forceinline__ ForwardBlock(const SdpaSizes& sizes, const SdpaOperand& keys, const SdpaOperand& values,
                                          Element* memory, int row)
      : z(sizes), k(keys), v(values), stages(memory), warp_row(row) {
    int tiles = (z.T + kQueries - 1) / kQueries, head = int(blockIdx.x) / tiles;
    first = (tiles - 1 - int(blockIdx.x) % tiles) * kQueries, rows = min(kQueries, z.T - first);
    b = head / z.H, h = head % z.H, g = z.KvHead(h);
    fewest = z.Visible(first), steps = (z.Visible(first + rows - 1) + kKeys - 1) / kKeys;
  }

  __device__ __forceinline__ Element* Stage(int step) const {
    return stages + step % Shape::kStages * 2 * Keys::kElements;
  }
  __device__ __forceinline__ void Fetch(int step) const {
    constexpr int kThreads = Shape::kThreads;
    int begin = step * kKeys, n = min(kKeys, z.S - begin);
    Keys{Stage(step)}.template Fetch<kThreads>(k.At<const Element>(b, begin, g), k.row, n, z.D, z.wide);
    Keys{Stage(step) + Keys::kElements}.template Fetch<kThreads>(v.At<const Element>(b, begin, g), v.row, n, z.D,
                                                                 z.wide);
  }

  // Sets the scores of keys that a query does not see to -inf. s is [Warp::kRows, kKeys].
  __device__ __forceinline__ void Hide(float (&s)[M][Warp::Blocks(kKeys)][4], int begin) const {
    if (begin + kKeys <= fewest) return;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int seen = z.Visible(first + warp_row + Warp::Row(m, half) + Warp::FirstRow()) - begin - Warp::FirstColumn();
#pragma unroll
        for (int n = 0; n < Warp::Blocks(kKeys); n++)
#pragma unroll
          for (int e = 0; e < 2; e++)
            if (Warp::Column(n, e) >= seen) s[m][n][2 * half + e] = -INFINITY;
      }
  }

  // Turns sums into means, and stores the log-sum-exp of each row. o is [Warp::kRows, D].
  __device__ __forceinline__ void Normalize(float (&o)[M][Warp::Blocks(Shape::D)][4], const Softmax<Warp>& softmax,
                                            const SdpaOperand& lse) const {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float total = Warp::ReduceRow(softmax.sum[m][half], [](float x, float y) { return x + y; });
        float inverse = total == 0 ? 0 : 1 / total;
        int row = warp_row + Warp::Row(m, half) + Warp::FirstRow();
        if (Warp::IsFirstOfRow() && row < rows)
          *lse.At<float>(b, first + row, h) = softmax.top[m][half] * float(z.scale) + logf(total);
#pragma unroll
        for (int n = 0; n < Warp::Blocks(Shape::D); n++) o[m][n][2 * half] *= inverse, o[m][n][2 * half + 1] *= inverse;
      }
  }
};

template <class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashForward(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand out, SdpaOperand lse) {
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(16) unsigned char shared[];
  typename Shape::Queries q_tile{reinterpret_cast<Element*>(shared)};  // [kQueries, D]
  int warp_index = int(threadIdx.x) / 32, warp_row = warp_index * Warp::kRows;
  Warp warp(shared + Shape::kTileBytes + size_t(warp_index) * Warp::ScratchBytes(Shape::kKeys));
  ForwardBlock<Shape> block(z, k, v, q_tile.data + q_tile.kElements, warp_row);
  q_tile.template Fetch<Shape::kThreads>(q.At<const Element>(block.b, block.first, block.h), q.row, block.rows, z.D,
                                         z.wide);
  if (block.steps > 0) block.Fetch(0);

  float o[Shape::M][Warp::Blocks(Shape::D)][4] = {};  // [Warp::kRows, D]
  Softmax<Warp> softmax;
  for (int step = 0; step < block.steps; step++) {
    CopyWait();
    __syncthreads();  // the stage has arrived, and all threads are done with the other one
    if (Shape::kStages == 2 && step + 1 < block.steps) block.Fetch(step + 1);
    Keys k_tile{block.Stage(step)}, v_tile{k_tile.data + Keys::kElements};  // [kKeys, D]
    float s[Shape::M][Warp::Blocks(Shape::kKeys)][4] = {};                  // [Warp::kRows, kKeys]
    warp.template MultiplyTransposed<Shape::D>(q_tile, warp_row, k_tile, s);
    block.Hide(s, step * Shape::kKeys);
    softmax.Step(s, o, float(z.scale * 1.4426950408889634));
    warp.Multiply(s, v_tile, 0, o);
    if (Shape::kStages == 1 && step + 1 < block.steps) {
      __syncthreads();  // all threads are done with the stage
      block.Fetch(step + 1);
    }
  }

  CopyWait();
  // If there was no step, q may still be on its way into the tile that takes the result.
  __syncthreads();
  block.Normalize(o, softmax, lse);
  Warp::Put(o, 1, q_tile, warp_row);  // only this warp reads these rows of q
  __syncwarp();
  if (warp_row < block.rows)
    q_tile.template Store<Warp::kRows>(warp_row, out.At<Element>(block.b, block.first + warp_row, block.h), out.row,
                                       block.rows - warp_row, z.D, z.wide);
}

template <class Shape>
void LaunchForward(const KernelCall& call) {
  SdpaSizes z(call);
  int64_t blocks = int64_t(z.B) * z.H * CeilDiv(z.T, Shape::kQueries);
  if (blocks == 0) return;
  auto* kernel = &FlashForward<Shape>;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(Shape::kSharedBytes)));
  kernel<<<unsigned(blocks), Shape::kThreads, Shape::kSharedBytes, DeviceOf(call).stream()>>>(
      z, OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.out[0]),
      OperandOf(call.out[1]));
  WEFT_CUDA_LAUNCHED("sdpa: flash");
}

}  // namespace weft::cuda
