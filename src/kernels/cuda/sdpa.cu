// Flash attention, forward (Dao 2023), on the tensor cores by mma.sync: a block owns a tile of queries and walks the
// keys with a running softmax. Scores live in registers only. bf16 and f16, f32 sums.
#include "kernels/common/nest.h"
#include "kernels/cuda/device.h"
#include "kernels/cuda/sdpa_choice.h"
#include "kernels/cuda/sdpa_mma.cuh"

namespace weft::cuda {
namespace {

// D: head size, with zeros beyond the real one. A warp has 16 * M queries. Sized so that sums and scores fit registers
// and two blocks a multiprocessor.
template <int D_, int M_, int Keys_>
struct ForwardShape {
  static constexpr int D = D_, M = M_, kKeys = Keys_;
  static constexpr int kWarps = 4, kThreads = 32 * kWarps;
  static constexpr int kQueries = 16 * M * kWarps;
  using Queries = SharedTile<kQueries, D>;
  using Keys = SharedTile<kKeys, D>;
  static constexpr size_t kSharedBytes = (Queries::kElements + 4 * Keys::kElements) * sizeof(uint16_t);  // K, V twice
};

// The running softmax of a warp's queries: each lane has rows lane / 4 and lane / 4 + 8 of every 16.
template <int M>
struct Softmax {
  float top[M][2], sum[M][2];  // of the unscaled scores; sum of this lane's columns only

  __device__ Softmax() {
    for (int m = 0; m < M; m++)
      for (int half = 0; half < 2; half++) top[m][half] = -INFINITY, sum[m][half] = 0;
  }

  // Turns scores s into exp2(scale_log2 * (s - top)) and scales what was added up before in o.
  template <int N, int NO>
  __device__ __forceinline__ void Step(float (&s)[M][N][4], float (&o)[M][NO][4], float scale_log2) {
#pragma unroll
    for (int m = 0; m < M; m++)
#pragma unroll
      for (int half = 0; half < 2; half++) {
        float largest = top[m][half];
#pragma unroll
        for (int n = 0; n < N; n++) largest = fmaxf(largest, fmaxf(s[m][n][2 * half], s[m][n][2 * half + 1]));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 1));
        largest = fmaxf(largest, __shfl_xor_sync(~0u, largest, 2));
        float base = largest == -INFINITY ? 0 : largest * scale_log2;  // a row that has seen no key stays at 0
        float factor = Exp2(top[m][half] * scale_log2 - base);
        top[m][half] = largest;
        float total = sum[m][half] * factor;
#pragma unroll
        for (int n = 0; n < N; n++)
#pragma unroll
          for (int e = 2 * half; e < 2 * half + 2; e++) total += s[m][n][e] = Exp2(s[m][n][e] * scale_log2 - base);
        sum[m][half] = total;
#pragma unroll
        for (int n = 0; n < NO; n++) o[m][n][2 * half] *= factor, o[m][n][2 * half + 1] *= factor;
      }
  }
};

template <TensorCoreFloat T, class Shape>
__global__ void __launch_bounds__(Shape::kThreads)
    FlashForward(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand out, SdpaOperand lse) {
  constexpr int D = Shape::D, M = Shape::M, kQueries = Shape::kQueries, kKeys = Shape::kKeys;
  constexpr int kThreads = Shape::kThreads;
  using Keys = typename Shape::Keys;
  extern __shared__ __align__(16) uint16_t shared[];
  typename Shape::Queries q_tile{shared};        // [kQueries, D]
  uint16_t* stages = shared + q_tile.kElements;  // 2 x (K, V [kKeys, D])
  int lane = int(threadIdx.x) % 32, warp_row = int(threadIdx.x) / 32 * 16 * M;

  // The last tiles of a head see the most keys, so they begin first. Neighbours share K and V in the L2 cache.
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
  if (steps > 0) fetch_keys(0);

  float scale_log2 = float(z.scale * 1.4426950408889634);
  float o[M][D / 8][4] = {};  // [16 * M, D]
  Softmax<M> softmax;
  for (int step = 0; step < steps; step++) {
    CopyWait();
    __syncthreads();  // the stage is there, and all have left the other one
    if (step + 1 < steps) fetch_keys(step + 1);
    Keys k_tile{stages + step % 2 * 2 * Keys::kElements};  // [kKeys, D]
    Keys v_tile{k_tile.data + Keys::kElements};            // [kKeys, D]
    float s[M][kKeys / 8][4] = {};                         // [16 * M, kKeys]
    MultiplyTransposed<T, M, kKeys / 16, D>(q_tile, warp_row, k_tile, s);
    int begin = step * kKeys;
    if (begin + kKeys > fewest) {
#pragma unroll
      for (int m = 0; m < M; m++)
#pragma unroll
        for (int half = 0; half < 2; half++) {
          int seen = z.Visible(first + warp_row + m * 16 + half * 8 + lane / 4) - begin - lane % 4 * 2;
#pragma unroll
          for (int n = 0; n < kKeys / 8; n++)
#pragma unroll
            for (int e = 0; e < 2; e++)
              if (n * 8 + e >= seen) s[m][n][2 * half + e] = -INFINITY;
        }
    }
    softmax.Step(s, o, scale_log2);
    MultiplyPacked<T, M, D / 16, kKeys / 16>(s, v_tile, 0, o);
  }

  CopyWait();
  __syncthreads();  // where there was no step, q may still be on its way into the tile that takes the result
#pragma unroll
  for (int m = 0; m < M; m++)
#pragma unroll
    for (int half = 0; half < 2; half++) {
      float total = softmax.sum[m][half];
      total += __shfl_xor_sync(~0u, total, 1);
      total += __shfl_xor_sync(~0u, total, 2);
      float inverse = total == 0 ? 0 : 1 / total;
      int row = warp_row + m * 16 + half * 8 + lane / 4;
      if (lane % 4 == 0 && row < rows)
        *lse.At<float>(b, first + row, h) = softmax.top[m][half] * float(z.scale) + logf(total);
#pragma unroll
      for (int n = 0; n < D / 8; n++) o[m][n][2 * half] *= inverse, o[m][n][2 * half + 1] *= inverse;
    }
  StoreFragments<T, M, D / 16>(o, 1, q_tile, warp_row);  // a warp's rows of q are read by that warp alone
  __syncwarp();
  if (warp_row < rows)
    q_tile.template Store<16 * M>(warp_row, out.At<uint16_t>(b, first + warp_row, h), out.row, rows - warp_row, z.D);
}

// ---------------------------------------------------------------------------------------------------------------------

template <TensorCoreFloat T, class Shape>
void Launch(const KernelCall& call, const SdpaSizes& z) {
  int64_t blocks = int64_t(z.B) * z.H * CeilDiv(z.T, Shape::kQueries);
  if (blocks == 0) return;
  auto* kernel = &FlashForward<T, Shape>;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(Shape::kSharedBytes)));
  kernel<<<unsigned(blocks), Shape::kThreads, Shape::kSharedBytes, DeviceOf(call).stream()>>>(
      z, OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.out[0]),
      OperandOf(call.out[1]));
  WEFT_CUDA_LAUNCHED("sdpa: flash");
}

// Calls fn with the shape of a head size.
template <class Fn>
decltype(auto) WithShape(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(ForwardShape<64, 2, 64>());
  if (D <= 96) return fn(ForwardShape<96, 2, 64>());
  if (D <= 128) return fn(ForwardShape<128, 2, 64>());
  return fn(ForwardShape<256, 1, 32>());
}

template <TensorCoreFloat T>
void ForwardAs(const KernelCall& call) {
  SdpaSizes z(call);
  WithShape(z.D, [&](auto shape) { Launch<T, decltype(shape)>(call, z); });
}

}  // namespace

size_t SdpaFlashSharedBytes(int64_t D) {
  return WithShape(D, [](auto shape) { return shape.kSharedBytes; });
}
void SdpaFlash(const KernelCall& call) {
  call.in[0].dtype == DType::kBF16 ? ForwardAs<BF16>(call) : ForwardAs<F16>(call);
}

}  // namespace weft::cuda
