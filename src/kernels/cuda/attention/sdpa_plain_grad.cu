// The backward pass of the plain backend (sdpa_plain.cu). Every kernel recomputes the probabilities from lse.
//
// dQ uses one block per query, which walks the keys that it may see. dK and dV use one block per key, which walks the
// queries that may see it. The bias's gradient uses one block per row and piece of keys, which walks all sequences,
// heads and queries that add to it. Every sum has one writer and a fixed order.
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_plain.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = kPlainThreads, kWarps = kPlainWarps;

// Adds weights [n] times row(i) [size] of each visible i to sum [size]. Adds the rows up first: sums of partial sums
// lose less.
template <class C, class RowOf>
__device__ __forceinline__ void AddVisible(int n, const bool* visible, const C* weights, int size, RowOf row, C* sum) {
  for (int d = int(threadIdx.x); d < size; d += kThreads) {
    C part = 0;
    for (int i = 0; i < n; i++)
      if (visible[i]) part += weights[i] * Widen(row(i)[d]);
    sum[d] += part;
  }
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainGradQ(SdpaSizes z, const __grid_constant__ SdpaRules rules, SdpaOperand q, SdpaOperand k, SdpaOperand v,
               SdpaOperand dout, SdpaRows<C> rows, SdpaOperand dq) {
  auto [b, i, h] = PlaceOf(blockIdx.x, z.H, z.T);
  int g = z.KvHead(h), tid = int(threadIdx.x), warp = tid / kWarp;
  __shared__ bool visible[kThreads];
  C* query = SharedStart<C>();  // [D]
  C* dy = query + z.D;          // [E]
  C* sum = dy + z.E;            // [D]
  C* ds = sum + z.D;            // [kThreads]
  LoadRow(q.At<T>(b, i, h), z.D, query);
  LoadRow(dout.At<T>(b, i, h), z.E, dy);
  for (int d = tid; d < z.D; d += kThreads) sum[d] = 0;
  int64_t at = rows.At(z, b, h) + i;
  C lse = rows.lse[at], delta = rows.delta[at];
  IndexRange keys = rules.Keys(b, i);
  for (int begin = keys.begin; begin < keys.end; begin += kThreads) {
    int n = min(kThreads, keys.end - begin);
    if (!AnyVisible(n, visible, [&](int x) { return rules.Sees({b, h, i, begin + x}); })) continue;
    for (int j = warp; j < n; j += kWarps) {
      if (!visible[j]) continue;
      C product = WarpDot(query, k.At<T>(b, begin + j, g), z.D) * C(z.scale);
      C dp = WarpDot(dy, v.At<T>(b, begin + j, g), z.E);
      if (tid % kWarp == 0) ds[j] = rules.Gradient<T>(product, dp, lse, delta, {b, h, i, begin + j}).product;
    }
    __syncthreads();
    AddVisible(
        n, visible, ds, z.D, [&](int j) { return k.At<T>(b, begin + j, g); }, sum);
    __syncthreads();  // the next piece overwrites `visible`
  }
  T* y = dq.At<T>(b, i, h);  // [D]
  for (int d = tid; d < z.D; d += kThreads) y[d] = Narrow<T>(sum[d] * C(z.scale));
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainGradKV(SdpaSizes z, const __grid_constant__ SdpaRules rules, SdpaOperand q, SdpaOperand k, SdpaOperand v,
                SdpaOperand dout, SdpaRows<C> rows, SdpaOperand dk, SdpaOperand dv) {
  auto [b, j, g] = PlaceOf(blockIdx.x, z.G, z.S);
  int tid = int(threadIdx.x), warp = tid / kWarp;
  __shared__ bool visible[kThreads];
  C* key = SharedStart<C>();     // [D]
  C* value = key + z.D;          // [E]
  C* key_sum = value + z.E;      // [D]
  C* value_sum = key_sum + z.D;  // [E]
  C* p = value_sum + z.E;        // [kThreads]
  C* ds = p + kThreads;          // [kThreads]
  LoadRow(k.At<T>(b, j, g), z.D, key);
  LoadRow(v.At<T>(b, j, g), z.E, value);
  for (int d = tid; d < z.D; d += kThreads) key_sum[d] = 0;
  for (int d = tid; d < z.E; d += kThreads) value_sum[d] = 0;
  IndexRange queries = j < rules.Length(b) ? rules.Queries(b, j) : IndexRange{0, 0};
  for (int h = z.FirstHead(g); h < z.EndHead(g); h++) {
    const C *lse = rows.lse + rows.At(z, b, h), *delta = rows.delta + rows.At(z, b, h);  // [T]
    for (int begin = queries.begin; begin < queries.end; begin += kThreads) {
      int n = min(kThreads, queries.end - begin);
      if (!AnyVisible(n, visible, [&](int x) { return rules.Sees({b, h, begin + x, j}); })) continue;
      for (int i = warp; i < n; i += kWarps) {
        if (!visible[i]) continue;
        int query = begin + i;
        C product = WarpDot(key, q.At<T>(b, query, h), z.D) * C(z.scale);
        C dp = WarpDot(value, dout.At<T>(b, query, h), z.E);
        if (tid % kWarp) continue;
        ScoreGrad<C> grad = rules.Gradient<T>(product, dp, lse[query], delta[query], {b, h, query, j});
        p[i] = grad.p, ds[i] = grad.product;
      }
      __syncthreads();
      AddVisible(
          n, visible, ds, z.D, [&](int i) { return q.At<T>(b, begin + i, h); }, key_sum);
      AddVisible(
          n, visible, p, z.E, [&](int i) { return dout.At<T>(b, begin + i, h); }, value_sum);
      __syncthreads();  // the next piece overwrites `visible`
    }
  }
  T *y_dk = dk.At<T>(b, j, g), *y_dv = dv.At<T>(b, j, g);  // [D], [E]
  for (int d = tid; d < z.D; d += kThreads) y_dk[d] = Narrow<T>(key_sum[d] * C(z.scale));
  for (int d = tid; d < z.E; d += kThreads) y_dv[d] = Narrow<T>(value_sum[d]);
}

constexpr int kBiasKeys = 32;  // keys of a block

// The bias's gradient, and how many sequences, heads and queries it tells apart; those of a dim of 1 are summed.
struct BiasGrad {
  ScoreOperand to;
  int B, H, T;
  bool over_b, over_h, over_t;

  explicit BiasGrad(const TensorView& view)
      : to(view),
        B(int(view.dim(0).extent)),
        H(int(view.dim(1).extent)),
        T(int(view.dim(2).extent)),
        over_b(view.dim(0).global == 1),
        over_h(view.dim(1).global == 1),
        over_t(view.dim(2).global == 1) {}
  __device__ static IndexRange Sum(bool over, int index, int n) {
    return over ? IndexRange{0, n} : IndexRange{index, index + 1};
  }
};

// Adds the gradients of the scores of query i to sums [kBiasKeys], whose first is that of key `first`. Shared memory
// holds q and dout of one query.
template <class T, class C>
__device__ void AddBiasGrads(const SdpaSizes& z, const SdpaRules& rules, SdpaOperand q, SdpaOperand k, SdpaOperand v,
                             SdpaOperand dout, const SdpaRows<C>& rows, int b, int h, int i, int first, C* sums) {
  IndexRange keys = rules.Keys(b, i);
  int begin = max(keys.begin, first), end = min(keys.end, first + kBiasKeys), g = z.KvHead(h);
  if (begin >= end) return;
  C *query = SharedStart<C>(), *dy = query + z.D;  // [D], [E]
  __syncthreads();                                 // the row before is no longer read
  LoadRow(q.At<T>(b, i, h), z.D, query);
  LoadRow(dout.At<T>(b, i, h), z.E, dy);
  __syncthreads();
  int64_t at = rows.At(z, b, h) + i;
  for (int j = first + int(threadIdx.x) / kWarp; j < end; j += kWarps) {  // a key stays with its warp
    if (j < begin || !rules.Sees({b, h, i, j})) continue;
    C product = WarpDot(query, k.At<T>(b, j, g), z.D) * C(z.scale);
    C dp = WarpDot(dy, v.At<T>(b, j, g), z.E);
    if (threadIdx.x % kWarp == 0)
      sums[j - first] += rules.Gradient<T>(product, dp, rows.lse[at], rows.delta[at], {b, h, i, j}).score;
  }
}

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    PlainGradBias(SdpaSizes z, const __grid_constant__ SdpaRules rules, SdpaOperand q, SdpaOperand k, SdpaOperand v,
                  SdpaOperand dout, SdpaRows<C> rows, const __grid_constant__ BiasGrad bias) {
  int pieces = (z.S + kBiasKeys - 1) / kBiasKeys, first = int(blockIdx.x % unsigned(pieces)) * kBiasKeys;
  auto [b0, i0, h0] = PlaceOf(blockIdx.x / unsigned(pieces), bias.H, bias.T);
  int last = min(first + kBiasKeys, z.S) - 1, tid = int(threadIdx.x);
  __shared__ C sums[kBiasKeys];  // [kBiasKeys]
  if (tid < kBiasKeys) sums[tid] = 0;
  __syncthreads();
  IndexRange sequences = bias.Sum(bias.over_b, b0, z.B), heads = bias.Sum(bias.over_h, h0, z.H),
             rows_of_t = bias.Sum(bias.over_t, i0, z.T);
  for (int b = sequences.begin; b < sequences.end; b++) {
    int begin = max(rows_of_t.begin, rules.Queries(b, first).begin);
    int end = min(rows_of_t.end, rules.Queries(b, last).end);
    for (int h = heads.begin; h < heads.end; h++)
      for (int i = begin; i < end; i++) AddBiasGrads<T, C>(z, rules, q, k, v, dout, rows, b, h, i, first, sums);
  }
  __syncthreads();
  if (first + tid <= last && tid < kBiasKeys) bias.to.At<T>({b0, h0, i0, first + tid}) = Narrow<T>(sums[tid]);
}

template <class T, class C = Compute<T>>
void GradBias(const KernelCall& call, const SdpaSizes& z, const SdpaRules& rules, const SdpaRows<C>& rows) {
  BiasGrad bias(call.out[call.out.size() - 1]);
  int64_t blocks = int64_t(bias.B) * bias.H * bias.T * CeilDiv(z.S, kBiasKeys);
  WEFT_CHECK(blocks <= INT32_MAX, "sdpa_grad on CUDA: the gradient of the bias is too large; shard it");
  LaunchPlain(call, "sdpa_grad: plain dbias", PlainGradBias<T>, blocks, (size_t(z.D) + size_t(z.E)) * sizeof(C), z,
              rules, OperandOf(call.in[0]), OperandOf(call.in[1]), OperandOf(call.in[2]), OperandOf(call.in[5]), rows,
              bias);
}

template <class T, class C = Compute<T>>
void GradAs(const KernelCall& call) {
  SdpaSizes z(call);
  SdpaRules rules(call);
  SdpaRows<C> rows = PrepareSdpaRows<C>(call, 1);
  SdpaOperand q = OperandOf(call.in[0]), k = OperandOf(call.in[1]), v = OperandOf(call.in[2]),
              dout = OperandOf(call.in[5]);
  size_t D = size_t(z.D), E = size_t(z.E);
  LaunchPlain(call, "sdpa_grad: plain dk and dv", PlainGradKV<T>, int64_t(z.B) * z.G * z.S,
              (2 * D + 2 * E + 2 * kThreads) * sizeof(C), z, rules, q, k, v, dout, rows, OperandOf(call.out[1]),
              OperandOf(call.out[2]));
  LaunchPlain(call, "sdpa_grad: plain dq", PlainGradQ<T>, int64_t(z.B) * z.H * z.T, (2 * D + E + kThreads) * sizeof(C),
              z, rules, q, k, v, dout, rows, OperandOf(call.out[0]));
  if (rules.bias.data) GradBias<T>(call, z, rules, rows);
  GradSdpaSinks<C>(call, rows, 1);
}

}  // namespace

void GradSdpaBias(const KernelCall& call) {
  SdpaRules rules(call);
  if (!rules.bias.data) return;
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    GradBias<T>(call, SdpaSizes(call), rules, PrepareSdpaRows<Compute<T>>(call, 1));
  });
}

void SdpaGradPlain(const KernelCall& call) {
  DispatchFloating(call.in[0].dtype, [&](auto zero) { GradAs<decltype(zero)>(call); });
}

}  // namespace weft::cuda
