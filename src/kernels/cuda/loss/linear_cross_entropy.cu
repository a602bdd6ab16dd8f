// The last product fused with its cross-entropy. Logits exist for one chunk of rows at a time, their gradient
// overwrites them, and the gradients of both operands follow at once (Hsu et al., "Liger Kernel", 2024).
#include <algorithm>

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loss/cross_entropy.cuh"
#include "weft/kernels/cuda/plan/linear_loss.h"

namespace weft::cuda {
namespace {

// Calls fn(i, x) for this thread's vectors of a row. Several loads are in flight at a time, because fn may write to the
// row itself, which holds back later loads.
template <int V, class T, class Fn>
__device__ __forceinline__ void ForVectors(const T* row, int vectors, Fn fn) {
  int threads = int(blockDim.x);
  for (int first = int(threadIdx.x); first < vectors; first += kUnroll * threads) {
    Vector<T, V> x[kUnroll];  // [kUnroll, V]
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (first + u * threads < vectors) x[u] = Vector<T, V>::Load(row + int64_t(first + u * threads) * V);
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (first + u * threads < vectors) fn(first + u * threads, x[u]);
  }
}

// Calls fn(first column, x) for the vectors and then for the single elements at the end of the row.
template <int V, class T, class Fn>
__device__ __forceinline__ void ForRow(const T* row, int columns, Fn fn) {
  int vectors = columns / V;
  ForVectors<V>(row, vectors, [&](int i, const auto& x) { fn(i * V, x); });
  if constexpr (V > 1)
    ForVectors<1>(row + vectors * V, columns - vectors * V, [&](int i, const auto& x) { fn(vectors * V + i, x); });
}

// dlogit = scale * (p - even - at_target at the target) of a row whose exponentials are relative to `shift`.
template <class T>
struct RowInPlace {
  using C = Compute<T>;
  C shift, rate, offset, at_target;  // rate: scale / sum; offset: -scale * even; scale * at_target
  int target;                        // -1 if outside the vocabulary

  template <int V>
  __device__ __forceinline__ void Store(T* row, int column, const Vector<T, V>& x) const {
    C d[V];  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) d[v] = fma(Exponent<T>::Shifted(x[v], shift), rate, offset);
    if (unsigned(target - column) < unsigned(V)) {
#pragma unroll
      for (int v = 0; v < V; v++) d[v] -= target == column + v ? at_target : C(0);
    }
    Vector<T, V>::Of(d).Store(row + column);
  }
};

// Each block takes one row. It computes the loss and, with kGradient, overwrites the logits with their gradient. Blocks
// have up to 1024 threads, so that few rows are in flight and the second read finds them in the cache.
template <class T, int V, bool kGradient>
__global__ void __launch_bounds__(kMostThreads) LossInPlace(const __grid_constant__ LossArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  T* row = args.dlogits + args.rows.At(blockIdx.x).of[0];
  Place at = args.per_token.At(blockIdx.x);
  int64_t target = args.Target(at.of[0]);
  bool known = target >= 0 && target < args.columns, totals = args.smoothing != 0;
  double picked = known ? double(Widen(row[target])) : 0;
  Running<T> running;
  ForRow<V>(row, int(args.columns), [&](int, const auto& x) { running.Add({x}, totals); });
  running.Join(shared, totals);
  if (threadIdx.x == 0) {
    double lse = Exponent<T>::Log(running.shift, running.sum);
    args.loss[at.of[1]] = C(LossOfRow(args, running, lse, target, picked));
  }
  if constexpr (kGradient) {
    __syncthreads();  // all threads have read the target's logit
    C scale = known ? args.dloss[at.of[2]] : C(NAN);
    RowInPlace<T> grad{running.shift, scale / running.sum, -scale * args.even, scale * args.at_target,
                       known ? int(target) : -1};
    if (target == args.ignore)
      ForRow<V>(row, int(args.columns), [&](int column, auto x) { decltype(x){}.Store(row + column); });
    else
      ForRow<V>(row, int(args.columns), [&](int column, const auto& x) { grad.Store(row, column, x); });
  }
}

template <class T, bool kGradient>
void Losses(const KernelCall& call, const LossChunk& c) {
  LossArgs<T> args;
  args.dlogits = c.logits.as<T>();
  args.targets = c.targets.data;
  args.target_bytes = int(SizeOf(c.targets.dtype));
  args.loss = c.loss.as<Compute<T>>();
  args.dloss = c.dloss.as<const Compute<T>>();
  args.rows = WalkRows(c.x.rank - 1, {&c.logits});
  args.per_token = WalkRows(c.targets.rank, {&c.targets, &c.loss, kGradient ? &c.dloss : nullptr});
  args.SetVocab(c.logits);
  WEFT_CHECK(args.columns < INT32_MAX, "linear_cross_entropy on CUDA: expected a vocabulary below 2^31");
  args.SetSmoothing(*call.attrs);
  auto kernel = &LossInPlace<T, 1, kGradient>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4) kernel = &LossInPlace<T, kPack<T>, kGradient>, vectors = CeilDiv(vectors, kPack<T>);
  auto threads = unsigned(std::min<int64_t>(kMostThreads, RoundUp(vectors, kWarp)));
  kernel<<<args.rows.steps, threads, 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED("linear_cross_entropy");
}

template <bool kGradient>
void RunChunk(const KernelCall& call, const LossChunk& chunk, bool first) {
  LossProduct::Logits(chunk).Run(call, chunk);
  DispatchFloating(chunk.x.dtype, [&](auto zero) { Losses<decltype(zero), kGradient>(call, chunk); });
  if constexpr (kGradient) {
    LossProduct::Dx(chunk).Run(call, chunk);
    LossProduct::Dw(chunk, !first).Run(call, chunk);
  }
}

template <Op op>
void Run(const KernelCall& call) {
  constexpr bool kGradient = op == Op::kLinearCrossEntropyGrad;
  if (!IsFloating(call.in[0].dtype)) RefuseType(op, call.in[0].dtype, "a float");
  LossCut cut(call);
  if (cut.rows == 0) {
    if (kGradient)
      DeviceOf(call).Fill(call.out[2].data, 0, size_t(call.out[2].CapacityElements()) * SizeOf(call.out[2].dtype));
    return;
  }
  for (int64_t first = 0; first < cut.rows; first += cut.size)
    RunChunk<kGradient>(call, LossChunk(call, cut.flat, first, std::min(cut.size, cut.rows - first)), first == 0);
}

}  // namespace

void AddLinearLoss(KernelTable& table) {
  SetRun(table, Op::kLinearCrossEntropy, &Run<Op::kLinearCrossEntropy>);
  SetRun(table, Op::kLinearCrossEntropyGrad, &Run<Op::kLinearCrossEntropyGrad>);
}

}  // namespace weft::cuda
