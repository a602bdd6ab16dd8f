// Flash attention, backward (Dao 2023). Probabilities are recomputed from lse, scores live only in registers, and sums
// are f32.
//
// If every run has to give the same bits, there are two passes, so that every sum is made by one warp in a fixed order:
// - a block of FlashGradKV owns a tile of keys and walks the queries of all heads of its group;
// - a block of FlashGradQ owns a tile of queries and walks the keys.
//
// That takes seven products instead of five but no atomics. Otherwise, and for 16-bit floats, FlashGradKV also adds to
// dQ (QuerySums). Calls without options run kernels of their own (NoRules).
#pragma once
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_query_sums.cuh"
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/attention/sdpa_scores.cuh"
#include "weft/kernels/cuda/attention/sdpa_walk.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// D is the head size, padded with zeros. Warp is how a warp computes, which determines its number of keys. A step takes
// kQueries queries, which are fetched in `Stages` stages: two if shared memory has room, so that the next queries
// arrive while these are worked on. If the sums of a warp would not fit in its registers, blocks share the columns of a
// tile and take `Columns` each.
template <class Warp_, int D_, int Warps, int Queries_, int Columns_ = D_, int Stages = 2>
struct GradKVShape {
  using Warp = Warp_;
  using Element = typename Warp::Element;
  static constexpr int D = D_, M = Warp::M, kQueries = Queries_, kColumns = Columns_, kStages = Stages;
  static constexpr int kThreads = 32 * Warps, kKeys = Warp::kRows * Warps, kParts = D / kColumns;
  using Queries = typename Warp::template Tile<kQueries, D>;
  using Keys = typename Warp::template Tile<kKeys, D>;
  // Q, dO, and lse and delta as floats, up to where the tile of the next stage may begin.
  static constexpr int kRowValues = 2 * kQueries * int(sizeof(float) / sizeof(Element));
  static constexpr int kAlignment = int(Warp::kTileAlignment / sizeof(Element));
  static constexpr int kStage = 2 * Queries::kElements + (kRowValues + kAlignment - 1) / kAlignment * kAlignment;
  static constexpr size_t kSharedBytes = (2 * Keys::kElements + kStages * kStage) * sizeof(Element);
  using Ruled = RuledScores<Warp, kQueries, Warp::kRows, true>;
  static constexpr size_t kRuledBytes = kSharedBytes + Warps * Ruled::kBytes;  // of shared memory with options
  template <class Rules>
  static constexpr size_t BytesUnder() {
    return std::is_same_v<Rules, NoRules> ? kSharedBytes : kRuledBytes;
  }
  static_assert(kSharedBytes % Warp::kTileAlignment == 0 && kRuledBytes % Warp::kTileAlignment == 0);
};

// The work of one block: kKeys keys of a head, kColumns columns of their gradients, and the queries that see them.
template <class Shape>
struct GradKVBlock {
  static constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, M = Shape::M;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Queries = typename Shape::Queries;
  using Scores = float[M][Warp::Blocks(kQueries)][4];  // [Warp::kRows, kQueries]

  const SdpaSizes& z;
  Element* stages;  // kStages x (Q, dO [kQueries, D]; lse, delta [kQueries])
  int warp_row, column, first, b, g, rows;

  // The first keys are seen by the most queries, so their blocks begin first.
  __device__ __forceinline__ GradKVBlock(const SdpaSizes& sizes, Element* memory, int row)
      : z(sizes), stages(memory), warp_row(row) {
    int tiles = (z.S + kKeys - 1) / kKeys, block = int(blockIdx.x), head = block / Shape::kParts / tiles;
    column = block % Shape::kParts * Shape::kColumns, first = block / Shape::kParts % tiles * kKeys;
    b = head / z.G, g = head % z.G, rows = min(kKeys, z.S - first);
  }

  // The stage of a block's step number `turn`.
  __device__ __forceinline__ Element* Stage(int turn) const { return stages + turn % Shape::kStages * Shape::kStage; }
  __device__ __forceinline__ void Fetch(const WalkStep& step, int turn, const SdpaOperand& q, const SdpaOperand& dout,
                                        const SdpaRows<float>& query_rows) const {
    constexpr int kThreads = Shape::kThreads, kChunks = kQueries / 4;
    Element* stage = Stage(turn);
    int h = step.head, begin = step.at * kQueries, tid = int(threadIdx.x);
    int n = min(kQueries, z.T - begin);
    Queries{stage}.template Fetch<kThreads>(q.At<const Element>(b, begin, h), q.row, n, z.D, z.wide);
    Queries{stage + Queries::kElements}.template Fetch<kThreads>(dout.At<const Element>(b, begin, h), dout.row, n, z.D,
                                                                 z.wide);
    float* row_values = reinterpret_cast<float*>(stage + 2 * Queries::kElements);
    int64_t at = query_rows.At(z, b, h) + begin;
    if (tid < kChunks)
      CopyAsync16(row_values + tid * 4, query_rows.lse + at + tid * 4, true);
    else if (tid < 2 * kChunks)
      CopyAsync16(row_values + tid * 4, query_rows.delta + at + (tid - kChunks) * 4, true);
  }

  // Turns the scores p into probabilities, and ds from the cotangents of the probabilities into those of the scores.
  __device__ __forceinline__ void Differentiate(Scores& p, Scores& ds, const float* lse, int begin) const {
    const float* delta = lse + kQueries;
    float scale_log2 = float(z.scale * kLog2E);
    // Some query does not see some key, or some keys do not exist: their scores of 0 may be so much more than those of
    // real keys that the gradients would not be finite.
    bool edge = first + kKeys - 1 > begin + z.shift || rows < kKeys;
#pragma unroll
    for (int n = 0; n < Warp::Blocks(kQueries); n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        int i = Warp::Column(n, e) + Warp::FirstColumn();
        float row_lse = lse[i], row_delta = delta[i];
        int last_seen = min(begin + i + z.shift - first, rows - 1) - warp_row - Warp::FirstRow();
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            float& probability = p[m][n][2 * half + e];
            probability = Exp2(probability * scale_log2 - row_lse);
            if (edge && Warp::Row(m, half) > last_seen) probability = 0;
            ds[m][n][2 * half + e] = probability * (ds[m][n][2 * half + e] - row_delta);
          }
      }
  }
  // The same under options. p loses what dropout drops.
  template <class Options>
  __device__ __forceinline__ void Differentiate(Scores& p, Scores& ds, const float* lse, int begin,
                                                const Options& options) const {
    auto query = [](int n, int e) { return Warp::Column(n, e) + Warp::FirstColumn(); };
    if constexpr (Options::kRuled)
      options.Differentiate(
          p, ds, [&](int, int, int n, int e) { return lse[query(n, e)]; },
          [&](int, int, int n, int e) { return lse[kQueries + query(n, e)]; });
    else
      Differentiate(p, ds, lse, begin);
    options.Drop(p);
  }

  // Adds the products of one step to the sums. `stage` holds the queries from `query` on. ds becomes the cotangents of
  // the scores.
  template <class Keys, class Options, class Sums>
  __device__ __forceinline__ void AddStep(const Warp& warp, const Keys& k_tile, const Keys& v_tile, Element* stage,
                                          int query, const Options& options, Scores& ds, Sums& sum_k,
                                          Sums& sum_v) const {
    Queries q_tile{stage}, dout_tile{stage + Queries::kElements};  // [kQueries, D]
    const float* lse = reinterpret_cast<const float*>(dout_tile.data + Queries::kElements);
    Scores p;  // [Warp::kRows, kQueries]
    warp.template MultiplyTransposed<Shape::D>(k_tile, warp_row, q_tile, p);
    warp.template MultiplyTransposed<Shape::D>(v_tile, warp_row, dout_tile, ds);
    Warp::Wait(p, ds);
    Differentiate(p, ds, lse, query, options);
    warp.Multiply(p, dout_tile, column, sum_v);
    warp.Multiply(ds, q_tile, column, sum_k);
  }

  // Stores sums [Warp::kRows, kColumns] through the tiles of k and v, whose rows only this warp reads.
  template <class Sums, class Keys>
  __device__ __forceinline__ void Store(const Sums& sum_k, const Sums& sum_v, const Keys& k_tile, const Keys& v_tile,
                                        const SdpaOperand& dk, const SdpaOperand& dv) const {
    Warp::Put(sum_k, float(z.scale), k_tile, warp_row);
    Warp::Put(sum_v, 1, v_tile, warp_row);
    __syncwarp();
    if (warp_row >= rows) return;
    int columns = min(Shape::kColumns, z.D - column);
    Element* to_k = dk.At<Element>(b, first + warp_row, g) + column;
    Element* to_v = dv.At<Element>(b, first + warp_row, g) + column;
    k_tile.template Store<Warp::kRows>(warp_row, to_k, dk.row, rows - warp_row, columns, z.wide);
    v_tile.template Store<Warp::kRows>(warp_row, to_v, dv.row, rows - warp_row, columns, z.wide);
  }
};

// Products are transposed, [keys, queries], so that probabilities are the left factor of dV and dK as they are.
template <class Shape, class Sums, class Rules>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashGradKV(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand dout, SdpaRows<float> query_rows,
                SdpaOperand dk, SdpaOperand dv, Sums query_sums, const __grid_constant__ Rules rules) {
  constexpr int M = Shape::M, kColumns = Shape::kColumns, kThreads = Shape::kThreads;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(1024) unsigned char shared[];
  Keys k_tile{reinterpret_cast<Element*>(shared)}, v_tile{k_tile.data + Keys::kElements};  // [kKeys, D]
  int warp_index = int(threadIdx.x) / 32, warp_row = warp_index * Warp::kRows;
  Warp warp;
  GradKVBlock<Shape> block(z, v_tile.data + Keys::kElements, warp_row);
  int b = block.b, g = block.g, first = block.first, rows = block.rows, column = block.column;
  k_tile.template Fetch<kThreads>(k.At<const Element>(b, first, g), k.row, rows, z.D, z.wide);
  v_tile.template Fetch<kThreads>(v.At<const Element>(b, first, g), v.row, rows, z.D, z.wide);
  QueryWalk<Rules, Shape::kQueries> walk(z, rules, b, g, first, rows);
  RulesOfWarp<typename Shape::Ruled, Rules> options(
      rules, z.scale, b, 0, shared + Shape::kSharedBytes + size_t(warp_index) * Shape::Ruled::kBytes);
  typename Sums::template Adder<Shape> adder(query_sums, z, b, shared + Shape::template BytesUnder<Rules>());
  WalkStep step = walk.First(), next = step;
  if (walk.Has(step)) block.Fetch(step, 0, q, dout, query_rows);

  float sum_k[M][Warp::Blocks(kColumns)][4] = {}, sum_v[M][Warp::Blocks(kColumns)][4] = {};  // [Warp::kRows, kColumns]
  for (int turn = 0; walk.Has(step); step = next, turn++) {
    CopyWaitAll<Warp>();  // the stage has arrived, and all threads are done with the other one
    next = walk.Next(step);
    if (Shape::kStages == 2 && walk.Has(next)) block.Fetch(next, turn + 1, q, dout, query_rows);
    int query = step.at * Shape::kQueries;
    typename GradKVBlock<Shape>::Scores ds = {};  // [Warp::kRows, kQueries]
    if (options.MoveTo(walk, step, step.head, query, first + warp_row) || Warp::kTogether)
      block.AddStep(warp, k_tile, v_tile, block.Stage(turn), query, options, ds, sum_k, sum_v);
    adder.Put(ds, warp_row);
    adder.Add(k_tile, step.head, query, column);
    Warp::Wait(sum_k, sum_v);
    if (Shape::kStages == 1 && walk.Has(next)) {
      __syncthreads();  // all threads are done with the stage
      block.Fetch(next, turn + 1, q, dout, query_rows);
    }
  }

  CopyWait();
  __syncthreads();  // if there was no step, k and v may still be on their way into the tiles that take the results
  block.Store(sum_k, sum_v, k_tile, v_tile, dk, dv);
}

// A step takes kKeys keys. The other parameters are those of GradKVShape.
template <class Warp_, int D_, int Keys_, int Warps = 4, int Stages = 2>
struct GradQShape {
  using Warp = Warp_;
  using Element = typename Warp::Element;
  static constexpr int D = D_, M = Warp::M, kKeys = Keys_, kStages = Stages;
  static constexpr int kThreads = 32 * Warps, kQueries = Warp::kRows * Warps;
  using Queries = typename Warp::template Tile<kQueries, D>;
  using Keys = typename Warp::template Tile<kKeys, D>;
  static constexpr size_t kSharedBytes = (2 * Queries::kElements + 2 * kStages * Keys::kElements) * sizeof(Element);
  using Ruled = RuledScores<Warp, Warp::kRows, kKeys, false>;
  static constexpr size_t kRuledBytes = kSharedBytes + Warps * Ruled::kBytes;  // of shared memory with options
  template <class Rules>
  static constexpr size_t BytesUnder() {
    return std::is_same_v<Rules, NoRules> ? kSharedBytes : kRuledBytes;
  }
};

// The work of one block: kQueries queries of a head, and the keys that they see.
template <class Shape>
struct GradQBlock {
  static constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, M = Shape::M;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Keys = typename Shape::Keys;
  using Scores = float[M][Warp::Blocks(kKeys)][4];  // [Warp::kRows, kKeys]

  const SdpaSizes& z;
  Element* stages;  // kStages x (K, V [kKeys, D])
  int warp_row, b, h, g, first, rows;
  float lse[M][2], delta[M][2];  // of this thread's rows

  __device__ __forceinline__ GradQBlock(const SdpaSizes& sizes, Element* memory, int row)
      : z(sizes), stages(memory), warp_row(row) {
    int tiles = (z.T + kQueries - 1) / kQueries, head = int(blockIdx.x) / tiles;
    first = (tiles - 1 - int(blockIdx.x) % tiles) * kQueries, rows = min(kQueries, z.T - first);
    b = head / z.H, h = head % z.H, g = z.KvHead(h);
  }

  __device__ __forceinline__ Element* Stage(int turn) const {
    return stages + turn % Shape::kStages * 2 * Keys::kElements;
  }
  __device__ __forceinline__ void Fetch(const WalkStep& step, int turn, const SdpaOperand& k,
                                        const SdpaOperand& v) const {
    constexpr int kThreads = Shape::kThreads;
    int begin = step.at * kKeys, n = min(kKeys, z.S - begin);
    Keys{Stage(turn)}.template Fetch<kThreads>(k.At<const Element>(b, begin, g), k.row, n, z.D, z.wide);
    Keys{Stage(turn) + Keys::kElements}.template Fetch<kThreads>(v.At<const Element>(b, begin, g), v.row, n, z.D,
                                                                 z.wide);
  }
  __device__ __forceinline__ void ReadRows(const SdpaRows<float>& query_rows) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int64_t at = query_rows.At(z, b, h) + first + warp_row + Warp::Row(m, half) + Warp::FirstRow();
        lse[m][half] = query_rows.lse[at], delta[m][half] = query_rows.delta[at];
      }
  }

  // Turns ds from the cotangents of the probabilities into those of the scores. p holds the scores.
  __device__ __forceinline__ void Differentiate(const Scores& p, Scores& ds, int begin, int fewest) const {
    float scale_log2 = float(z.scale * kLog2E);
    bool edge = begin + kKeys > fewest;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int seen = z.Visible(first + warp_row + Warp::Row(m, half) + Warp::FirstRow()) - begin - Warp::FirstColumn();
#pragma unroll
        for (int n = 0; n < Warp::Blocks(kKeys); n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float probability = Exp2(p[m][n][2 * half + e] * scale_log2 - lse[m][half]);
            if (edge && Warp::Column(n, e) >= seen) probability = 0;
            ds[m][n][2 * half + e] = probability * (ds[m][n][2 * half + e] - delta[m][half]);
          }
      }
  }
  // The same under options. p is left with the probabilities.
  template <class Walk, class Options>
  __device__ __forceinline__ void Differentiate(Scores& p, Scores& ds, const Walk& walk, const WalkStep& step,
                                                const Options& options) const {
    if constexpr (Options::kRuled)
      options.Differentiate(
          p, ds, [&](int m, int half, int, int) { return lse[m][half]; },
          [&](int m, int half, int, int) { return delta[m][half]; });
    else
      Differentiate(p, ds, step.at * kKeys, walk.fewest);
  }

  // Stores sums [Warp::kRows, D] through the tile of q, whose rows only this warp reads.
  __device__ __forceinline__ void Store(const float (&sum)[M][Warp::Blocks(Shape::D)][4],
                                        const typename Shape::Queries& q_tile, const SdpaOperand& dq) const {
    Warp::Put(sum, float(z.scale), q_tile, warp_row);
    __syncwarp();
    if (warp_row < rows)
      q_tile.template Store<Warp::kRows>(warp_row, dq.At<Element>(b, first + warp_row, h), dq.row, rows - warp_row, z.D,
                                         z.wide);
  }
};

template <class Shape, class Rules>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashGradQ(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand dout, SdpaRows<float> query_rows,
               SdpaOperand dq, const __grid_constant__ Rules rules) {
  constexpr int D = Shape::D, M = Shape::M, kThreads = Shape::kThreads;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Queries = typename Shape::Queries;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(1024) unsigned char shared[];
  Queries q_tile{reinterpret_cast<Element*>(shared)}, dout_tile{q_tile.data + Queries::kElements};  // [kQueries, D]
  int warp_index = int(threadIdx.x) / 32, warp_row = warp_index * Warp::kRows;
  Warp warp;
  GradQBlock<Shape> block(z, dout_tile.data + Queries::kElements, warp_row);
  int b = block.b, h = block.h, first = block.first, rows = block.rows;
  q_tile.template Fetch<kThreads>(q.At<const Element>(b, first, h), q.row, rows, z.D, z.wide);
  dout_tile.template Fetch<kThreads>(dout.At<const Element>(b, first, h), dout.row, rows, z.D, z.wide);
  KeyWalk<Rules, Shape::kKeys> walk(z, rules, b, first, rows);
  RulesOfWarp<typename Shape::Ruled, Rules> options(
      rules, z.scale, b, h, shared + Shape::kSharedBytes + size_t(warp_index) * Shape::Ruled::kBytes);
  WalkStep step = walk.First(), next = step;
  if (walk.Has(step)) block.Fetch(step, 0, k, v);
  block.ReadRows(query_rows);

  float sum[M][Warp::Blocks(D)][4] = {};  // [Warp::kRows, D]
  for (int turn = 0; walk.Has(step); step = next, turn++) {
    CopyWaitAll<Warp>();
    next = walk.Next(step);
    if (Shape::kStages == 2 && walk.Has(next)) block.Fetch(next, turn + 1, k, v);
    Keys k_tile{block.Stage(turn)}, v_tile{k_tile.data + Keys::kElements};  // [kKeys, D]
    if (options.MoveTo(walk, step, h, first + warp_row, step.at * Shape::kKeys) || Warp::kTogether) {
      typename GradQBlock<Shape>::Scores p, ds;  // [Warp::kRows, kKeys]
      warp.template MultiplyTransposed<D>(q_tile, warp_row, k_tile, p);
      warp.template MultiplyTransposed<D>(dout_tile, warp_row, v_tile, ds);
      Warp::Wait(p, ds);
      block.Differentiate(p, ds, walk, step, options);
      warp.Multiply(ds, k_tile, 0, sum);
      Warp::Wait(sum);
    }
    if (Shape::kStages == 1 && walk.Has(next)) {
      __syncthreads();  // all threads are done with the stage
      block.Fetch(next, turn + 1, k, v);
    }
  }

  CopyWait();
  __syncthreads();
  block.Store(sum, q_tile, dq);
}

// Launches a kernel of the backward pass with the shared memory of a Shape and `more` bytes.
template <class Shape, class Rules, class... Parameters, class... Args>
void LaunchGrad(const KernelCall& call, const char* name, void (*kernel)(Parameters...), int64_t blocks, size_t more,
                const Rules& rules, Args... args) {
  if (blocks == 0) return;
  size_t bytes = Shape::template BytesUnder<Rules>() + more;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(bytes)));
  kernel<<<unsigned(blocks), Shape::kThreads, bytes, DeviceOf(call).stream()>>>(args..., rules);
  WEFT_CUDA_LAUNCHED(name);
}
template <class KV, class Sums, class Rules>
void LaunchGradKV(const KernelCall& call, const SdpaRows<float>& rows, const Sums& sums, const Rules& rules) {
  static_assert(SdpaSizes::kRowPadding % KV::kQueries == 0);
  SdpaSizes z(call);
  LaunchGrad<KV>(call, "sdpa_grad: flash dk and dv", &FlashGradKV<KV, Sums, Rules>,
                 int64_t(z.B) * z.G * CeilDiv(z.S, KV::kKeys) * KV::kParts, Sums::template Adder<KV>::kBytes, rules, z,
                 OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.in[5]), rows,
                 OperandOf(call.out[1]), OperandOf(call.out[2]), sums);
}
template <class Q, class Rules>
void LaunchGradQ(const KernelCall& call, const SdpaRows<float>& rows, const Rules& rules) {
  static_assert(SdpaSizes::kRowPadding % Q::kQueries == 0);
  SdpaSizes z(call);
  LaunchGrad<Q>(call, "sdpa_grad: flash dq", &FlashGradQ<Q, Rules>, int64_t(z.B) * z.H * CeilDiv(z.T, Q::kQueries), 0,
                rules, z, OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.in[5]),
                rows, OperandOf(call.out[0]));
}

template <class KV, class Q, class Rules>
void LaunchBackward(const KernelCall& call, const SdpaRows<float>& rows, const Rules& rules) {
  if constexpr (HasQuerySums<KV>)
    if (FlashSumsQueries(call)) {
      QuerySums sums = ClearQuerySums(call);
      LaunchGradKV<KV>(call, rows, sums, rules);
      return RoundQuerySums(call, sums);
    }
  LaunchGradKV<KV>(call, rows, NoQuerySums(), rules);
  LaunchGradQ<Q>(call, rows, rules);
}

template <class KV, class Q>
void LaunchBackward(const KernelCall& call) {
  SdpaRows<float> rows = PrepareSdpaRows<float>(call, float(kLog2E));
  if (!HasOptions(call)) return LaunchBackward<KV, Q>(call, rows, NoRules());
  LaunchBackward<KV, Q>(call, rows, FlashRules(call, SdpaRowsBytes(call) + QuerySumBytes(call)));
  GradSdpaSinks(call, rows, float(kLog2E));
  GradSdpaBias(call);
}

}  // namespace weft::cuda
