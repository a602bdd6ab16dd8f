// Attention for every floating dtype and head sizes up to 1024, in memory linear in the sequence length: the backend of
// last resort.
//
// Forward and dQ use one block per query, which walks its keys in pieces of one key per thread. dK and dV use one block
// per key, which walks the queries that see it. A piece has two steps: the scores, one per warp; then the weighted sum
// of rows, one column per thread. Sums have a fixed order.
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 128;
constexpr int kWarps = kThreads / kWarp;

// Returns the shared memory of a block in bytes: `rows` rows of D, `pieces` values per thread, and the buffer of
// BlockReduce.
template <class C>
size_t SharedBytes(const SdpaSizes& z, int rows, int pieces) {
  return (size_t(rows) * size_t(z.D) + size_t(pieces) * kThreads + kWarps) * sizeof(C);
}

template <class C>
__device__ C* SharedStart() {
  extern __shared__ double shared[];
  return reinterpret_cast<C*>(shared);
}

template <class T, class C>
__device__ void LoadRow(const T* row, int D, C* to) {
  for (int d = int(threadIdx.x); d < D; d += kThreads) to[d] = Widen(row[d]);
}

// Returns the dot product of a row in shared memory and one in storage, in every lane of the warp.
template <class T, class C>
__device__ C WarpDot(const C* a, const T* b, int D) {
  C sum = 0;
  for (int d = int(threadIdx.x) % kWarp; d < D; d += kWarp) sum += a[d] * Widen(b[d]);
  return WarpReduce(sum, SumOf());
}

__device__ __forceinline__ float ExpOf(float x) { return expf(x); }
__device__ __forceinline__ double ExpOf(double x) { return exp(x); }
__device__ __forceinline__ float LogOf(float x) { return logf(x); }
__device__ __forceinline__ double LogOf(double x) { return log(x); }

struct Place {
  int b, i, h;
};
// Returns the indices of block number `block` in [B, heads, rows].
__device__ Place PlaceOf(int64_t block, int heads, int rows) {
  return {int(block / rows / heads), int(block % rows), int(block / rows % heads)};
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainForward(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand out, SdpaOperand lse) {
  auto [b, i, h] = PlaceOf(blockIdx.x, z.H, z.T);
  int g = z.KvHead(h), keys = z.Visible(i), tid = int(threadIdx.x), warp = tid / kWarp;
  C* query = SharedStart<C>();  // [D]
  C* sum = query + z.D;         // [D]
  C* p = sum + z.D;             // [kThreads]
  C* scratch = p + kThreads;    // [kWarps]
  LoadRow(q.At<T>(b, i, h), z.D, query);
  for (int d = tid; d < z.D; d += kThreads) sum[d] = 0;
  C largest = -C(INFINITY), total = 0;
  for (int begin = 0; begin < keys; begin += kThreads) {
    int n = min(kThreads, keys - begin);
    __syncthreads();
    for (int j = warp; j < n; j += kWarps) {
      C dot = WarpDot(query, k.At<T>(b, begin + j, g), z.D);
      if (tid % kWarp == 0) p[j] = dot * C(z.scale);
    }
    __syncthreads();
    C score = tid < n ? p[tid] : -C(INFINITY);
    C top = BlockReduce(max(score, largest), MaxOf(), scratch);
    C base = top == -C(INFINITY) ? C(0) : top;  // all scores may be -inf
    C factor = ExpOf(largest - base), probability = ExpOf(score - base);
    p[tid] = probability;
    total = total * factor + BlockReduce(probability, SumOf(), scratch);
    largest = top;
    __syncthreads();
    for (int d = tid; d < z.D; d += kThreads) {
      C value = sum[d] * factor;
      for (int j = 0; j < n; j++) value += p[j] * Widen(v.At<T>(b, begin + j, g)[d]);
      sum[d] = value;  // only this thread reads and writes it
    }
  }
  C inverse = total > 0 ? 1 / total : total;  // NaN stays NaN
  T* y = out.At<T>(b, i, h);                  // [D]
  for (int d = tid; d < z.D; d += kThreads) y[d] = Narrow<T>(sum[d] * inverse);
  if (tid == 0) *lse.At<C>(b, i, h) = largest + LogOf(total);
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads) PlainGradQ(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v,
                                                       SdpaOperand dout, SdpaRows<C> rows, SdpaOperand dq) {
  auto [b, i, h] = PlaceOf(blockIdx.x, z.H, z.T);
  int g = z.KvHead(h), keys = z.Visible(i), tid = int(threadIdx.x), warp = tid / kWarp;
  C* query = SharedStart<C>();  // [D]
  C* dy = query + z.D;          // [D]
  C* sum = dy + z.D;            // [D]
  C* ds = sum + z.D;            // [kThreads]
  LoadRow(q.At<T>(b, i, h), z.D, query);
  LoadRow(dout.At<T>(b, i, h), z.D, dy);
  for (int d = tid; d < z.D; d += kThreads) sum[d] = 0;
  int64_t at = rows.At(z, b, h) + i;
  C lse = rows.lse[at], delta = rows.delta[at];
  for (int begin = 0; begin < keys; begin += kThreads) {
    int n = min(kThreads, keys - begin);
    __syncthreads();
    for (int j = warp; j < n; j += kWarps) {
      C score = WarpDot(query, k.At<T>(b, begin + j, g), z.D) * C(z.scale);
      C dp = WarpDot(dy, v.At<T>(b, begin + j, g), z.D);
      if (tid % kWarp == 0) ds[j] = ExpOf(score - lse) * (dp - delta);
    }
    __syncthreads();
    for (int d = tid; d < z.D; d += kThreads) {
      C part = 0;  // of these keys: sums of partial sums lose less
      for (int j = 0; j < n; j++) part += ds[j] * Widen(k.At<T>(b, begin + j, g)[d]);
      sum[d] += part;
    }
  }
  T* y = dq.At<T>(b, i, h);  // [D]
  for (int d = tid; d < z.D; d += kThreads) y[d] = Narrow<T>(sum[d] * C(z.scale));
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainGradKV(SdpaSizes z, SdpaOperand q, SdpaOperand k, SdpaOperand v, SdpaOperand dout, SdpaRows<C> rows,
                SdpaOperand dk, SdpaOperand dv) {
  auto [b, j, g] = PlaceOf(blockIdx.x, z.G, z.S);
  int tid = int(threadIdx.x), warp = tid / kWarp;
  C* key = SharedStart<C>();  // [D]
  C* value = key + z.D;       // [D]
  C* key_sum = value + z.D;   // [D]
  C* value_sum = key_sum + z.D;
  C* p = value_sum + z.D;  // [kThreads]
  C* ds = p + kThreads;    // [kThreads]
  LoadRow(k.At<T>(b, j, g), z.D, key);
  LoadRow(v.At<T>(b, j, g), z.D, value);
  for (int d = tid; d < z.D; d += kThreads) key_sum[d] = value_sum[d] = 0;
  for (int h = z.FirstHead(g); h < z.EndHead(g); h++) {
    const C *lse = rows.lse + rows.At(z, b, h), *delta = rows.delta + rows.At(z, b, h);  // [T]
    for (int begin = z.FirstQuery(j); begin < z.T; begin += kThreads) {
      int n = min(kThreads, z.T - begin);
      __syncthreads();
      for (int i = warp; i < n; i += kWarps) {
        C score = WarpDot(key, q.At<T>(b, begin + i, h), z.D) * C(z.scale);
        C dp = WarpDot(value, dout.At<T>(b, begin + i, h), z.D);
        C probability = ExpOf(score - lse[begin + i]);
        if (tid % kWarp == 0) p[i] = probability, ds[i] = probability * (dp - delta[begin + i]);
      }
      __syncthreads();
      for (int d = tid; d < z.D; d += kThreads) {
        C sum_k = 0, sum_v = 0;  // of these queries
        for (int i = 0; i < n; i++) {
          sum_k += ds[i] * Widen(q.At<T>(b, begin + i, h)[d]);
          sum_v += p[i] * Widen(dout.At<T>(b, begin + i, h)[d]);
        }
        key_sum[d] += sum_k, value_sum[d] += sum_v;
      }
    }
  }
  T *y_dk = dk.At<T>(b, j, g), *y_dv = dv.At<T>(b, j, g);  // [D]
  for (int d = tid; d < z.D; d += kThreads) {
    y_dk[d] = Narrow<T>(key_sum[d] * C(z.scale));
    y_dv[d] = Narrow<T>(value_sum[d]);
  }
}

// ---------------------------------------------------------------------------------------------------------------------

template <class Kernel, class... Args>
void Launch(const KernelCall& call, const char* name, Kernel* kernel, int64_t blocks, size_t shared, Args... args) {
  if (blocks == 0) return;
  WEFT_CUDA(cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, int(shared)));
  kernel<<<unsigned(blocks), kThreads, shared, DeviceOf(call).stream()>>>(args...);
  WEFT_CUDA_LAUNCHED(name);
}

}  // namespace

void SdpaPlain(const KernelCall& call) {
  SdpaSizes z(call);
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    Launch(call, "sdpa: plain", PlainForward<T>, int64_t(z.B) * z.H * z.T, SharedBytes<Compute<T>>(z, 2, 1), z,
           OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.out[0]),
           OperandOf(call.out[1]));
  });
}

void SdpaGradPlain(const KernelCall& call) {
  SdpaSizes z(call);
  SdpaOperand q = OperandOf(call.in[0]), k = OperandOf(call.in[1]), v = OperandOf(call.in[2]),
              dout = OperandOf(call.in[5]);
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    using C = Compute<T>;
    SdpaRows<C> rows = PrepareSdpaRows<C>(call, 1);
    Launch(call, "sdpa_grad: plain dk and dv", PlainGradKV<T>, int64_t(z.B) * z.G * z.S, SharedBytes<C>(z, 4, 2), z, q,
           k, v, dout, rows, OperandOf(call.out[1]), OperandOf(call.out[2]));
    Launch(call, "sdpa_grad: plain dq", PlainGradQ<T>, int64_t(z.B) * z.H * z.T, SharedBytes<C>(z, 3, 1), z, q, k, v,
           dout, rows, OperandOf(call.out[0]));
  });
}

}  // namespace weft::cuda
