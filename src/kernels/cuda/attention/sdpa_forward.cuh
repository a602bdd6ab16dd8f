// Flash attention, forward (Dao 2023). Each block owns a tile of queries and walks the keys with a running softmax.
// Scores live only in registers, and sums are f32. Calls without options run kernels of their own (NoRules).
#pragma once
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_scores.cuh"
#include "weft/kernels/cuda/attention/sdpa_walk.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {

// D is the head size, padded with zeros. Warp is how a warp computes, which determines its number of queries. A step
// takes kKeys keys, which are fetched in `Stages` stages: two if shared memory has room, so that the next keys arrive
// while these are worked on. Sizes are chosen so that sums and scores fit in registers, and two blocks in a
// multiprocessor.
template <class Warp_, int D_, int Keys_, int Warps_ = 4, int Stages = 2, int Blocks = 1>
struct ForwardShape {
  using Warp = Warp_;
  using Element = typename Warp::Element;
  static constexpr int D = D_, M = Warp::M, kKeys = Keys_, kStages = Stages;
  static constexpr int kWarps = Warps_, kThreads = 32 * kWarps, kBlocks = Blocks;
  static constexpr int kQueries = Warp::kRows * kWarps;
  using Queries = typename Warp::template Tile<kQueries, D>;
  using Keys = typename Warp::template Tile<kKeys, D>;
  static constexpr size_t kSharedBytes = (Queries::kElements + 2 * kStages * Keys::kElements) * sizeof(Element);
  using Ruled = RuledScores<Warp, Warp::kRows, kKeys, false>;
  static constexpr size_t kRuledBytes = kSharedBytes + kWarps * Ruled::kBytes;  // of shared memory with options
};

// The work of one block: kQueries queries of a head, and the keys that they see.
template <class Shape, class Rules>
struct ForwardBlock {
  static constexpr int kQueries = Shape::kQueries, kKeys = Shape::kKeys, M = Shape::M;
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  using Queries = typename Shape::Queries;
  using Keys = typename Shape::Keys;
  using Scores = float[M][Warp::Blocks(kKeys)][4];   // [Warp::kRows, kKeys]
  using Sums = float[M][Warp::Blocks(Shape::D)][4];  // [Warp::kRows, D]
  static constexpr bool kRuled = !std::is_same_v<Rules, NoRules>;

  const SdpaSizes& z;
  const SdpaOperand &k, &v;
  Element* stages;  // kStages x (K, V [kKeys, D])
  int warp_row, b, h, g, first, rows;

  // The last tiles of a head see the most keys, so their blocks begin first. Neighbouring blocks share K and V in the
  // L2 cache.
  __device__ __forceinline__ ForwardBlock(const SdpaSizes& sizes, const SdpaOperand& keys, const SdpaOperand& values,
                                          Element* memory, int row)
      : z(sizes), k(keys), v(values), stages(memory), warp_row(row) {
    int tiles = (z.T + kQueries - 1) / kQueries, head = int(blockIdx.x) / tiles;
    first = (tiles - 1 - int(blockIdx.x) % tiles) * kQueries, rows = min(kQueries, z.T - first);
    b = head / z.H, h = head % z.H, g = z.KvHead(h);
  }

  // The stage of a block's step number `turn`.
  __device__ __forceinline__ Element* Stage(int turn) const {
    return stages + turn % Shape::kStages * 2 * Keys::kElements;
  }
  __device__ __forceinline__ Keys KeysOf(int turn) const { return Keys(Stage(turn)); }
  __device__ __forceinline__ Keys ValuesOf(int turn) const { return Keys(Stage(turn) + Keys::kElements); }
  __device__ __forceinline__ void Fetch(const Keys& to, const SdpaOperand& from, const WalkStep& step) const {
    int begin = step.at * kKeys, n = min(kKeys, z.S - begin);
    to.template Fetch<Shape::kThreads>(from.At<const Element>(b, begin, g), from.row, n, z.D, z.wide);
  }
  __device__ __forceinline__ void FetchBoth(const WalkStep& step, int turn) const {
    Fetch(KeysOf(turn), k, step);
    Fetch(ValuesOf(turn), v, step);
  }

  static __device__ __forceinline__ void Copy(const Scores& from, Scores& to) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int n = 0; n < Warp::Blocks(kKeys); n++)
#pragma unroll
        for (int e = 0; e < 4; e++) to[m][n][e] = from[m][n][e];
  }

  // Sets the scores of keys that a query does not see to -inf. s is [Warp::kRows, kKeys].
  __device__ __forceinline__ void Hide(Scores& s, int begin, int fewest) const {
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

  // Turns the products of a step into scores, of which those that are not seen are -inf. s is [Warp::kRows, kKeys].
  template <class Walk, class Options>
  __device__ __forceinline__ void Score(Scores& s, const Walk& walk, const WalkStep& step,
                                        const Options& options) const {
    if constexpr (kRuled)
      options.Change(s), options.Hide(s);
    else
      Hide(s, step.at * kKeys, walk.fewest);
  }

  // Turns the products of a step into probabilities relative to the softmax's new maximum.
  template <class Walk, class Options>
  __device__ __forceinline__ void Weigh(Scores& s, const Walk& walk, const WalkStep& step, const Options& options,
                                        Softmax<Warp>& softmax) const {
    Score(s, walk, step, options);
    softmax.Step(s, options.log2_unit());
    options.Drop(s);
  }

  // Sums the values of all steps into o, one step after the other.
  template <class Walk, class Options>
  __device__ __forceinline__ void WalkSteps(const Warp& warp, const Queries& q_tile, Walk& walk, Options& options,
                                            Softmax<Warp>& softmax, Sums& o) const {
    WalkStep step = walk.First(), next = step;
    if (walk.Has(step)) FetchBoth(step, 0);
    for (int turn = 0; walk.Has(step); step = next, turn++) {
      CopyWaitAll<Warp>();  // the stage has arrived, and all threads are done with the other one
      next = walk.Next(step);
      if (Shape::kStages == 2 && walk.Has(next)) FetchBoth(next, turn + 1);
      if (options.MoveTo(walk, step, h, first + warp_row, step.at * kKeys)) {
        Scores s;
        warp.template MultiplyTransposed<Shape::D>(q_tile, warp_row, KeysOf(turn), s);
        Weigh(s, walk, step, options, softmax);
        softmax.Rescale(o);
        warp.Multiply(s, ValuesOf(turn), 0, o);
      }
      if (Shape::kStages == 1 && walk.Has(next)) {
        __syncthreads();  // all threads are done with the stage
        FetchBoth(next, turn + 1);
      }
    }
  }

  // The same with products that run while a warp does other work: while it computes the next step's softmax, which
  // needs that step's scores, the tensor cores multiply this step's values. Keys arrive one step before values.
  template <class Walk, class Options>
  __device__ __forceinline__ void WalkAhead(const Warp& warp, const Queries& q_tile, Walk& walk, Options& options,
                                            Softmax<Warp>& softmax, Sums& o) const {
    WalkStep step = walk.First();
    if (!walk.Has(step)) return;
    Fetch(KeysOf(0), k, step);
    CopyCommit();
    WalkStep next = walk.Next(step);
    Fetch(ValuesOf(0), v, step);
    if (walk.Has(next)) Fetch(KeysOf(1), k, next);
    CopyCommit();
    CopyWaitBut<1>();
    Warp::Publish();
    __syncthreads();
    Scores s;
    warp.template MultiplyTransposed<Shape::D>(q_tile, warp_row, KeysOf(0), s);
    options.MoveTo(walk, step, h, first + warp_row, step.at * kKeys);
    Warp::Wait(s);
    Weigh(s, walk, step, options, softmax);
    int turn = 0;
    for (; walk.Has(next); turn++) {
      CopyWaitAll<Warp>();  // all warps are done with the last step's keys, and with the values before them
      WalkStep after = walk.Next(next);
      if (walk.Has(after)) Fetch(KeysOf(turn + 2), k, after);
      Fetch(ValuesOf(turn + 1), v, next);
      Scores ahead;
      warp.template MultiplyTransposed<Shape::D>(q_tile, warp_row, KeysOf(turn + 1), ahead);
      warp.Multiply(s, ValuesOf(turn), 0, o);
      options.MoveTo(walk, next, h, first + warp_row, next.at * kKeys);
      Warp::template Wait<1>(ahead);
      Weigh(ahead, walk, next, options, softmax);
      Warp::Wait(o);
      softmax.Rescale(o);
      Copy(ahead, s);
      next = after;
    }
    CopyWaitAll<Warp>();
    warp.Multiply(s, ValuesOf(turn), 0, o);
    Warp::Wait(o);
  }

  // Adds a score without a value to a row's softmax. `top` is in natural units. Returns the factor of the row's sums.
  static __device__ __forceinline__ float AddSink(float sink, float& top, float& total) {
    if (sink == -INFINITY) return 1;
    float largest = fmaxf(top, sink), factor = expf(top - largest);
    total = total * factor + expf(sink - largest), top = largest;
    return factor;
  }

  // Turns sums into means, and stores the log-sum-exp of each row. o is [Warp::kRows, D]. `unit` is that of the scores.
  __device__ __forceinline__ void Normalize(Sums& o, const Softmax<Warp>& softmax, const SdpaOperand& lse,
                                            const Rules& rules, float unit) const {
    float sink = -INFINITY;
    if constexpr (kRuled)
      if (rules.scores.sinks) sink = Widen(static_cast<const typename Warp::Float*>(rules.scores.sinks)[h]);
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float total = Warp::ReduceRow(softmax.sum[m][half], [](float x, float y) { return x + y; });
        float top = softmax.top[m][half] * unit, factor = kRuled ? AddSink(sink, top, total) : 1;
        float inverse = total == 0 ? 0 : factor / total;
        int row = warp_row + Warp::Row(m, half) + Warp::FirstRow();
        if (Warp::IsFirstOfRow() && row < rows) *lse.At<float>(b, first + row, h) = top + logf(total);
#pragma unroll
        for (int n = 0; n < Warp::Blocks(Shape::D); n++) o[m][n][2 * half] *= inverse, o[m][n][2 * half + 1] *= inverse;
      }
  }

  // Stores means [Warp::kRows, D] through the tile of q, whose rows only this warp reads.
  __device__ __forceinline__ void Store(const Sums& o, const typename Shape::Queries& q_tile,
                                        const SdpaOperand& out) const {
    Warp::Put(o, 1, q_tile, warp_row);
    __syncwarp();
    if (warp_row < rows)
      q_tile.template Store<Warp::kRows>(warp_row, out.At<Element>(b, first + warp_row, h), out.row, rows - warp_row,
                                         z.D, z.wide);
  }
};

template <class Shape, class Rules>
__global__ void __launch_bounds__(Shape::kThreads, Shape::kBlocks)
    FlashForward(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand out, SdpaOperand lse,
                 const __grid_constant__ Rules rules) {
  using Warp = typename Shape::Warp;
  using Element = typename Shape::Element;
  extern __shared__ __align__(1024) unsigned char shared[];
  typename Shape::Queries q_tile{reinterpret_cast<Element*>(shared)};  // [kQueries, D]
  int warp_index = int(threadIdx.x) / 32, warp_row = warp_index * Warp::kRows;
  Warp warp;
  ForwardBlock<Shape, Rules> block(z, k, v, q_tile.data + q_tile.kElements, warp_row);
  q_tile.template Fetch<Shape::kThreads>(q.At<const Element>(block.b, block.first, block.h), q.row, block.rows, z.D,
                                         z.wide);
  KeyWalk<Rules, Shape::kKeys> walk(z, rules, block.b, block.first, block.rows);
  RulesOfWarp<typename Shape::Ruled, Rules> options(
      rules, z.scale, block.b, block.h, shared + Shape::kSharedBytes + size_t(warp_index) * Shape::Ruled::kBytes);

  float o[Shape::M][Warp::Blocks(Shape::D)][4] = {};  // [Warp::kRows, D]
  Softmax<Warp> softmax;
  if constexpr (Warp::kTogether)
    block.WalkAhead(warp, q_tile, walk, options, softmax, o);
  else
    block.WalkSteps(warp, q_tile, walk, options, softmax, o);

  CopyWait();
  // If there was no step, q may still be on its way into the tile that takes the result.
  __syncthreads();
  block.Normalize(o, softmax, lse, rules, options.natural());
  block.Store(o, q_tile, out);
}

template <class Shape, class Rules>
void LaunchForward(const KernelCall& call, const Rules& rules) {
  SdpaSizes z(call);
  int64_t blocks = int64_t(z.B) * z.H * CeilDiv(z.T, Shape::kQueries);
  if (blocks == 0) return;
  constexpr size_t kBytes = std::is_same_v<Rules, NoRules> ? Shape::kSharedBytes : Shape::kRuledBytes;
  auto* kernel = &FlashForward<Shape, Rules>;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(kBytes)));
  kernel<<<unsigned(blocks), Shape::kThreads, kBytes, DeviceOf(call).stream()>>>(
      z, OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.out[0]),
      OperandOf(call.out[1]), rules);
  WEFT_CUDA_LAUNCHED("sdpa: flash");
}

template <class Shape>
void LaunchForward(const KernelCall& call) {
  HasOptions(call) ? LaunchForward<Shape>(call, FlashRules(call, 0)) : LaunchForward<Shape>(call, NoRules());
}

}  // namespace weft::cuda
