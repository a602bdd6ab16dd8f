// Flash attention, backward (Dao 2023), on the tensor cores by mma.sync: probabilities are recomputed from lse, scores
// live in registers only. bf16 and f16, f32 sums.
//
// Two passes, so that every sum is made by one warp in a fixed order: a block of FlashGradKV owns a tile of keys and
// walks the queries of all heads of its group, one of FlashGradQ owns a tile of queries and walks the keys. That is
// seven products instead of five, and no atomics: the same bits on every run.
#include "kernels/common/nest.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/sdpa_choice.h"
#include "kernels/cuda/sdpa_mma.cuh"

namespace weft::cuda {
namespace {

constexpr double kLog2E = 1.4426950408889634;

// D: head size, with zeros beyond the real one. A warp has 16 * M keys, a step kQueries queries. Where the sums of a
// warp would not fit its registers, blocks share the columns of a tile: `Columns` each.
template <int D_, int M_, int Warps, int Queries_, int Columns_ = D_>
struct GradKVShape {
  static constexpr int D = D_, M = M_, kQueries = Queries_, kColumns = Columns_;
  static constexpr int kThreads = 32 * Warps, kKeys = 16 * M * Warps, kParts = D / kColumns;
  using Queries = SharedTile<kQueries, D>;
  using Keys = SharedTile<kKeys, D>;
  static constexpr int kStage = 2 * Queries::kElements + 4 * kQueries;  // Q, dO, and lse and delta as floats
  static constexpr size_t kSharedBytes = (2 * Keys::kElements + 2 * kStage) * sizeof(uint16_t);
};

// Products are transposed, [keys, queries]: then probabilities are the left factor of dV and dK as they stand.
template <TensorCoreFloat T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashGradKV(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand dout, SdpaRows<float> query_rows,
                SdpaOperand dk, SdpaOperand dv) {
  constexpr int D = Shape::D, M = Shape::M, kQueries = Shape::kQueries, kKeys = Shape::kKeys;
  constexpr int kColumns = Shape::kColumns, kThreads = Shape::kThreads;
  using Queries = typename Shape::Queries;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(16) uint16_t shared[];
  Keys k_tile{shared}, v_tile{shared + Keys::kElements};  // [kKeys, D]
  uint16_t* stages = shared + 2 * Keys::kElements;        // 2 x (Q, dO [kQueries, D]; lse, delta [kQueries])
  int tid = int(threadIdx.x), lane = tid % 32, warp_row = tid / 32 * 16 * M;

  // The first keys are seen by the most queries, and begin first.
  int tiles = (z.S + kKeys - 1) / kKeys, block = int(blockIdx.x);
  int column = block % Shape::kParts * kColumns, first = block / Shape::kParts % tiles * kKeys;
  int head = block / Shape::kParts / tiles, b = head / z.G, g = head % z.G, rows = min(kKeys, z.S - first);
  int first_head = z.FirstHead(g), first_step = z.FirstQuery(first) / kQueries;
  int steps_a_head = (z.T + kQueries - 1) / kQueries - first_step;
  int steps = (z.EndHead(g) - first_head) * steps_a_head;

  auto fetch_queries = [&](int step) {
    uint16_t* stage = stages + step % 2 * Shape::kStage;
    int h = first_head + step / steps_a_head, begin = (first_step + step % steps_a_head) * kQueries;
    int n = min(kQueries, z.T - begin);
    Queries{stage}.template Fetch<kThreads>(q.At<const uint16_t>(b, begin, h), q.row, n, z.D);
    Queries{stage + Queries::kElements}.template Fetch<kThreads>(dout.At<const uint16_t>(b, begin, h), dout.row, n,
                                                                 z.D);
    float* row_values = reinterpret_cast<float*>(stage + 2 * Queries::kElements);
    int64_t at = query_rows.At(z, b, h) + begin;
    constexpr int kChunks = kQueries / 4;
    if (tid < kChunks)
      CopyAsync16(row_values + tid * 4, query_rows.lse + at + tid * 4, true);
    else if (tid < 2 * kChunks)
      CopyAsync16(row_values + tid * 4, query_rows.delta + at + (tid - kChunks) * 4, true);
  };
  k_tile.template Fetch<kThreads>(k.At<const uint16_t>(b, first, g), k.row, rows, z.D);
  v_tile.template Fetch<kThreads>(v.At<const uint16_t>(b, first, g), v.row, rows, z.D);
  if (steps > 0) fetch_queries(0);

  float scale_log2 = float(z.scale * kLog2E);
  float sum_k[M][kColumns / 8][4] = {}, sum_v[M][kColumns / 8][4] = {};  // [16 * M, kColumns]
  for (int step = 0; step < steps; step++) {
    CopyWait();
    __syncthreads();  // the stage is there, and all have left the other one
    if (step + 1 < steps) fetch_queries(step + 1);
    Queries q_tile{stages + step % 2 * Shape::kStage};    // [kQueries, D]
    Queries dout_tile{q_tile.data + Queries::kElements};  // [kQueries, D]
    const float* lse = reinterpret_cast<const float*>(dout_tile.data + Queries::kElements);
    const float* delta = lse + kQueries;
    float p[M][kQueries / 8][4] = {}, ds[M][kQueries / 8][4] = {};  // [16 * M, kQueries]
    MultiplyTransposed<T, M, kQueries / 16, D>(k_tile, warp_row, q_tile, p);
    MultiplyTransposed<T, M, kQueries / 16, D>(v_tile, warp_row, dout_tile, ds);
    int begin = (first_step + step % steps_a_head) * kQueries;
    bool edge = first + kKeys - 1 > begin + z.shift;  // some query does not see some key
#pragma unroll
    for (int n = 0; n < kQueries / 8; n++)
#pragma unroll
      for (int e = 0; e < 2; e++) {
        int i = n * 8 + lane % 4 * 2 + e;
        float row_lse = lse[i], row_delta = delta[i];
        int last_seen = begin + i + z.shift - first - warp_row - lane / 4;
#pragma unroll
        for (int m = 0; m < M; m++)
#pragma unroll
          for (int half = 0; half < 2; half++) {
            float& probability = p[m][n][2 * half + e];
            probability = Exp2(probability * scale_log2 - row_lse);
            if (edge && m * 16 + half * 8 > last_seen) probability = 0;
            ds[m][n][2 * half + e] = probability * (ds[m][n][2 * half + e] - row_delta);
          }
      }
    MultiplyPacked<T, M, kColumns / 16, kQueries / 16>(p, dout_tile, column, sum_v);
    MultiplyPacked<T, M, kColumns / 16, kQueries / 16>(ds, q_tile, column, sum_k);
  }

  CopyWait();
  __syncthreads();  // where there was no step, k and v may still be on their way into the tiles that take the results
  StoreFragments<T, M, kColumns / 16>(sum_k, float(z.scale), k_tile, warp_row);  // rows that this warp alone reads
  StoreFragments<T, M, kColumns / 16>(sum_v, 1, v_tile, warp_row);
  __syncwarp();
  if (warp_row >= rows) return;
  int columns = min(kColumns, z.D - column);
  uint16_t* to_k = dk.At<uint16_t>(b, first + warp_row, g) + column;
  uint16_t* to_v = dv.At<uint16_t>(b, first + warp_row, g) + column;
  k_tile.template Store<16 * M>(warp_row, to_k, dk.row, rows - warp_row, columns);
  v_tile.template Store<16 * M>(warp_row, to_v, dv.row, rows - warp_row, columns);
}

// A warp has 16 * M queries, a step kKeys keys.
template <int D_, int M_, int Keys_>
struct GradQShape {
  static constexpr int D = D_, M = M_, kKeys = Keys_;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps, kQueries = 16 * M * kWarps;
  using Queries = SharedTile<kQueries, D>;
  using Keys = SharedTile<kKeys, D>;
  static constexpr size_t kSharedBytes = (2 * Queries::kElements + 4 * Keys::kElements) * sizeof(uint16_t);
};

template <TensorCoreFloat T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashGradQ(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand dout, SdpaRows<float> query_rows,
               SdpaOperand dq) {
  constexpr int D = Shape::D, M = Shape::M, kQueries = Shape::kQueries, kKeys = Shape::kKeys;
  constexpr int kThreads = Shape::kThreads;
  using Queries = typename Shape::Queries;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(16) uint16_t shared[];
  Queries q_tile{shared}, dout_tile{shared + Queries::kElements};  // [kQueries, D]
  uint16_t* stages = shared + 2 * Queries::kElements;              // 2 x (K, V [kKeys, D])
  int lane = int(threadIdx.x) % 32, warp_row = int(threadIdx.x) / 32 * 16 * M;

  int tiles = (z.T + kQueries - 1) / kQueries, head = int(blockIdx.x) / tiles;
  int first = (tiles - 1 - int(blockIdx.x) % tiles) * kQueries, rows = min(kQueries, z.T - first);
  int b = head / z.H, h = head % z.H, g = z.KvHead(h);
  int keys = z.Visible(first + rows - 1), fewest = z.Visible(first), steps = (keys + kKeys - 1) / kKeys;

  auto fetch_keys = [&](int step) {
    uint16_t* stage = stages + step % 2 * 2 * Keys::kElements;
    int begin = step * kKeys, n = min(kKeys, z.S - begin);
    Keys{stage}.template Fetch<kThreads>(k.At<const uint16_t>(b, begin, g), k.row, n, z.D);
    Keys{stage + Keys::kElements}.template Fetch<kThreads>(v.At<const uint16_t>(b, begin, g), v.row, n, z.D);
  };
  q_tile.template Fetch<kThreads>(q.At<const uint16_t>(b, first, h), q.row, rows, z.D);
  dout_tile.template Fetch<kThreads>(dout.At<const uint16_t>(b, first, h), dout.row, rows, z.D);
  if (steps > 0) fetch_keys(0);

  float lse[M][2], delta[M][2];
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      int64_t at = query_rows.At(z, b, h) + first + warp_row + m * 16 + half * 8 + lane / 4;
      lse[m][half] = query_rows.lse[at], delta[m][half] = query_rows.delta[at];
    }

  float scale_log2 = float(z.scale * kLog2E);
  float sum[M][D / 8][4] = {};  // [16 * M, D]
  for (int step = 0; step < steps; step++) {
    CopyWait();
    __syncthreads();
    if (step + 1 < steps) fetch_keys(step + 1);
    Keys k_tile{stages + step % 2 * 2 * Keys::kElements};     // [kKeys, D]
    Keys v_tile{k_tile.data + Keys::kElements};               // [kKeys, D]
    float p[M][kKeys / 8][4] = {}, ds[M][kKeys / 8][4] = {};  // [16 * M, kKeys]
    MultiplyTransposed<T, M, kKeys / 16, D>(q_tile, warp_row, k_tile, p);
    MultiplyTransposed<T, M, kKeys / 16, D>(dout_tile, warp_row, v_tile, ds);
    int begin = step * kKeys;
    bool edge = begin + kKeys > fewest;
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        int seen = z.Visible(first + warp_row + m * 16 + half * 8 + lane / 4) - begin - lane % 4 * 2;
#pragma unroll
        for (int n = 0; n < kKeys / 8; n++)
#pragma unroll
          for (int e = 0; e < 2; e++) {
            float probability = Exp2(p[m][n][2 * half + e] * scale_log2 - lse[m][half]);
            if (edge && n * 8 + e >= seen) probability = 0;
            ds[m][n][2 * half + e] = probability * (ds[m][n][2 * half + e] - delta[m][half]);
          }
      }
    MultiplyPacked<T, M, D / 16, kKeys / 16>(ds, k_tile, 0, sum);
  }

  CopyWait();
  __syncthreads();
  StoreFragments<T, M, D / 16>(sum, float(z.scale), q_tile, warp_row);  // rows that this warp alone reads
  __syncwarp();
  if (warp_row < rows)
    q_tile.template Store<16 * M>(warp_row, dq.At<uint16_t>(b, first + warp_row, h), dq.row, rows - warp_row, z.D);
}

// ---------------------------------------------------------------------------------------------------------------------

template <class Shape, class Kernel, class... Args>
void Launch(const KernelCall& call, const char* name, Kernel* kernel, int64_t blocks, Args... args) {
  if (blocks == 0) return;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(Shape::kSharedBytes)));
  kernel<<<unsigned(blocks), Shape::kThreads, Shape::kSharedBytes, DeviceOf(call).stream()>>>(args...);
  WEFT_CUDA_LAUNCHED(name);
}

template <TensorCoreFloat T, class KV, class Q>
void Run(const KernelCall& call, const SdpaSizes& z) {
  static_assert(SdpaSizes::kRowPadding % KV::kQueries == 0 && SdpaSizes::kRowPadding % Q::kQueries == 0);
  SdpaRows<float> rows = PrepareSdpaRows<float>(call, float(kLog2E));
  SdpaOperand q = OperandOf(call.in[0]), k = OperandOf(call.in[1]), v = OperandOf(call.in[2]),
              dout = OperandOf(call.in[5]);
  Launch<KV>(call, "sdpa_grad: flash dk and dv", &FlashGradKV<T, KV>,
             int64_t(z.B) * z.G * CeilDiv(z.S, KV::kKeys) * KV::kParts, z, q, k, v, dout, rows, OperandOf(call.out[1]),
             OperandOf(call.out[2]));
  Launch<Q>(call, "sdpa_grad: flash dq", &FlashGradQ<T, Q>, int64_t(z.B) * z.H * CeilDiv(z.T, Q::kQueries), z, q, k, v,
            dout, rows, OperandOf(call.out[0]));
}

// Calls fn with the shapes of a head size.
template <class Fn>
decltype(auto) WithShapes(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(GradKVShape<64, 2, 4, 32>(), GradQShape<64, 2, 64>());
  if (D <= 96) return fn(GradKVShape<96, 1, 8, 64>(), GradQShape<96, 2, 32>());
  if (D <= 128) return fn(GradKVShape<128, 1, 8, 64>(), GradQShape<128, 2, 32>());
  return fn(GradKVShape<256, 1, 4, 32, 128>(), GradQShape<256, 1, 32>());
}

template <TensorCoreFloat T>
void GradAs(const KernelCall& call) {
  SdpaSizes z(call);
  WithShapes(z.D, [&](auto kv, auto q) { Run<T, decltype(kv), decltype(q)>(call, z); });
}

}  // namespace

size_t SdpaGradFlashSharedBytes(int64_t D) {
  return WithShapes(D, [](auto kv, auto q) { return std::max(kv.kSharedBytes, q.kSharedBytes); });
}
void SdpaGradFlash(const KernelCall& call) {
  call.in[0].dtype == DType::kBF16 ? GradAs<BF16>(call) : GradAs<F16>(call);
}

}  // namespace weft::cuda
