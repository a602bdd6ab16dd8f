// Cross-entropy over the last dim, and its gradient. A block reads a row of logits once: every thread keeps a running
// maximum and a sum of exponentials relative to it (Milakov, Gimelshein, "Online normalizer calculation for softmax",
// 2018).
//
// A target outside the vocabulary cannot be reported from here: its loss and its row of the gradient are NaN.
#include <cfloat>
#include <cmath>
#include <limits>

#include "core/ops/loss.h"
#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/elementwise.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/row_walk.cuh"
#include "kernels/cuda/vector.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kMostThreads = 1024;
constexpr int kUnroll = 4;  // vectors that a thread has under way

// Exponentials of logits of type T. Those of 16 bits are taken to the base of two, by the hardware's instruction: one
// multiply-add and one exponential an element keep up with memory, where exp() does not.
template <class T>
struct Exponent {
  using C = Compute<T>;
  static constexpr bool kFast = sizeof(T) == 2;
  static constexpr C kRate = kFast ? C(1.4426950408889634) : C(1);  // of the scale that shifts are on
  __device__ static __forceinline__ C Of(C difference) {
    if constexpr (kFast) {
      float y;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(difference));
      return y;
    } else {
      return std::exp(difference);
    }
  }
  // exp(x - shift / kRate)
  __device__ static __forceinline__ C Shifted(C x, C shift) {
    return Of(kFast ? fmaf(float(x), float(kRate), -float(shift)) : x - shift);
  }
  // The logarithm of sum * exp(shift / kRate), with the same rounded rate.
  __device__ static double Log(C shift, C sum) {
    double log = kFast ? std::log2(double(sum)) : std::log(double(sum));
    return (double(shift) + log) / double(kRate);
  }
};

template <class T>
struct LossArgs {
  const T* logits = nullptr;
  T* dlogits = nullptr;
  const void* targets = nullptr;
  const Compute<T>* dloss = nullptr;
  Compute<T>*loss = nullptr, *lse = nullptr;
  Walk rows;       // operand 0: logits, 1: dlogits
  Walk per_token;  // operand 0: targets, 1: lse, 2: loss or dloss
  int64_t columns = 0, ignore = 0;
  int target_bytes = 0;
  double smoothing = 0;
  Compute<T> even = 0, at_target = 0;  // what the gradient takes off each probability, and off the target's

  __device__ int64_t Target(int64_t at) const {
    if (target_bytes == 8) return static_cast<const int64_t*>(targets)[at];
    if (target_bytes == 4) return static_cast<const int32_t*>(targets)[at];
    return static_cast<const uint8_t*>(targets)[at];
  }
};

// What a thread knows of its part of a row. The shift starts finite: -inf - -inf would be NaN.
template <class T>
struct Running {
  using C = Compute<T>;
  C shift = -std::numeric_limits<C>::max(), sum = 0, total = 0;  // of exponentials; of logits

  template <int V, int N>
  __device__ __forceinline__ void Add(const Vector<T, V> (&x)[N], bool totals) {
    C largest = x[0][0];
#pragma unroll
    for (int i = 1; i < N * V; i++) largest = std::fmax(x[i / V][i % V], largest);
    C before = shift;
    shift = std::fmax(largest * Exponent<T>::kRate, shift);
    sum *= Exponent<T>::Of(before - shift);
#pragma unroll
    for (int i = 0; i < N * V; i++) sum += Exponent<T>::Shifted(x[i / V][i % V], shift);
    if (!totals) return;
#pragma unroll
    for (int i = 0; i < N * V; i++) total += x[i / V][i % V];
  }

  template <int V>
  __device__ __forceinline__ void AddRow(const T* row, int64_t columns, bool totals) {
    int threads = int(blockDim.x);
    int64_t vectors = columns / V, at = threadIdx.x;
    for (; at + (kUnroll - 1) * threads < vectors; at += kUnroll * threads) {
      Vector<T, V> several[kUnroll];  // [kUnroll, V]
#pragma unroll
      for (int u = 0; u < kUnroll; u++) several[u] = Vector<T, V>::Load(row + (at + u * threads) * V);
      Add(several, totals);
    }
    for (; at < vectors; at += threads) {
      Vector<T, V> one[1] = {Vector<T, V>::Load(row + at * V)};  // [1, V]
      Add(one, totals);
    }
  }

  // Joins what all threads of the block know; each gets it.
  __device__ __forceinline__ void Join(C* shared) {
    C before = shift;
    shift = BlockReduce(shift, MaxOf(), shared);
    sum = BlockReduce(sum * Exponent<T>::Of(before - shift), SumOf(), shared);
    total = BlockReduce(total, SumOf(), shared);
  }
};

template <class T, int V>
__global__ void __launch_bounds__(kMostThreads) LossKernel(const __grid_constant__ LossArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  const T* row = args.logits + args.rows.At(blockIdx.x).of[0];
  Running<T> running;
  running.template AddRow<V>(row, args.columns, args.smoothing != 0);
  running.Join(shared);
  if (threadIdx.x != 0) return;
  Place at = args.per_token.At(blockIdx.x);
  int64_t target = args.Target(at.of[0]);
  double lse = Exponent<T>::Log(running.shift, running.sum), loss = 0;
  if (target != args.ignore) {
    bool known = target >= 0 && target < args.columns;
    loss = known ? lse - (1 - args.smoothing) * double(Widen(row[target])) : NAN;
    if (args.smoothing != 0) loss -= args.smoothing * double(running.total) / double(args.columns);
  }
  args.lse[at.of[1]] = C(lse);
  args.loss[at.of[2]] = C(loss);
}

// A row as its gradient needs it: dlogit = scale * (exp(x - lse) - even - (1 - smoothing) at the target).
template <class T>
struct RowGrad {
  using C = Compute<T>;
  int64_t target;
  C lse, scale, even, at_target;  // the last two: see LossArgs
  bool ignored;

  __device__ __forceinline__ RowGrad(const LossArgs<T>& args, uint32_t row) {
    Place at = args.per_token.At(row);
    target = args.Target(at.of[0]);
    lse = args.lse[at.of[1]];
    ignored = target == args.ignore;
    bool known = target >= 0 && target < args.columns;
    scale = known ? args.dloss[at.of[2]] : C(NAN);
    even = args.even, at_target = args.at_target;
  }
  // `first`: the column at which the vector begins.
  template <int V>
  __device__ __forceinline__ Vector<T, V> Of(const Vector<T, V>& x, int64_t first) const {
    int place = target >= first && target < first + V ? int(target - first) : -1;  // of the target in the vector
    C d[V];                                                                        // [V]
#pragma unroll
    for (int v = 0; v < V; v++) {
      C p = Exponent<T>::Of((x[v] - lse) * Exponent<T>::kRate) - (place == v ? at_target : C(0));
      d[v] = ignored ? C(0) : scale * (p - even);
    }
    return Vector<T, V>::Of(d);
  }
};

// A block takes one of the `chunks` parts of a row, of `size` vectors.
template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    LossGradKernel(const __grid_constant__ LossArgs<T> args, uint32_t chunks, int64_t size) {
  uint32_t row = blockIdx.x / chunks, chunk = blockIdx.x - row * chunks;
  Place at = args.rows.At(row);
  const T* x = args.logits + at.of[0];
  T* d = args.dlogits + at.of[1];
  int64_t first = chunk * size + threadIdx.x, end = min((chunk + 1) * size, args.columns / V);
  Vector<T, V> several[kUnroll];  // [kUnroll, V]
#pragma unroll
  for (int u = 0; u < kUnroll; u++)
    if (first + u * kThreads < end) several[u] = Vector<T, V>::Load(x + (first + u * kThreads) * V);
  RowGrad<T> grad(args, row);
#pragma unroll
  for (int u = 0; u < kUnroll; u++) {
    int64_t vector = first + u * kThreads;
    if (vector < end) grad.Of(several[u], vector * V).Store(d + vector * V);
  }
}

template <class T>
bool Vectorises(const TensorView& x) {
  if (!Aligned16(x.data) || ColumnsOf(x) % kPack<T> != 0) return false;
  for (int d = 0; d + 1 < x.rank; d++)
    if (x.dim(d).extent > 1 && x.dim(d).stride % kPack<T> != 0) return false;
  return true;
}

template <class T>
LossArgs<T> ArgsOf(const KernelCall& call, const TensorView* dlogits, const TensorView& lse, const TensorView& loss) {
  const TensorView &logits = call.in[0], &targets = call.in[1];
  LossArgs<T> args;
  args.logits = logits.as<const T>();
  args.targets = targets.data;
  args.target_bytes = int(SizeOf(targets.dtype));
  args.lse = lse.as<Compute<T>>();
  args.rows = WalkRows(logits.rank - 1, {&logits, dlogits});
  args.per_token = WalkRows(targets.rank, {&targets, &lse, &loss});
  args.columns = ColumnsOf(logits);
  args.ignore = call.attrs->Int("ignore_index");
  args.smoothing = call.attrs->Float("smoothing");
  return args;
}

// Half of what a multiprocessor takes, so that one block at work beside another's end keeps memory busy; all of it
// where there are few rows. Fewer where a row has no work for them.
unsigned ThreadsOfRow(uint32_t rows, int64_t vectors) {
  int64_t most = rows < 264 ? kMostThreads : kMostThreads / 2;
  return unsigned(std::min(most, RoundUp(CeilDiv(vectors, kUnroll), kWarp)));
}

template <class T>
void RunLoss(const KernelCall& call) {
  const TensorView &logits = call.in[0], &loss = call.out[0], &lse = call.out[1];
  LossArgs<T> args = ArgsOf<T>(call, nullptr, lse, loss);
  args.loss = loss.as<Compute<T>>();
  auto kernel = &LossKernel<T, 1>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4)
    if (Vectorises<T>(logits)) kernel = &LossKernel<T, kPack<T>>, vectors = args.columns / kPack<T>;
  kernel<<<args.rows.steps, ThreadsOfRow(args.rows.steps, vectors), 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED("cross_entropy");
}

template <class T>
void RunLossGrad(const KernelCall& call) {
  const TensorView &logits = call.in[0], &lse = call.in[2], &dloss = call.in[3], &dlogits = call.out[0];
  LossArgs<T> args = ArgsOf<T>(call, &dlogits, lse, dloss);
  args.dlogits = dlogits.as<T>();
  args.dloss = dloss.as<const Compute<T>>();
  args.even = Compute<T>(args.smoothing) / Compute<T>(args.columns);
  args.at_target = 1 - Compute<T>(args.smoothing);
  auto kernel = &LossGradKernel<T, 1>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4)
    if (Vectorises<T>(logits) && Vectorises<T>(dlogits))
      kernel = &LossGradKernel<T, kPack<T>>, vectors = args.columns / kPack<T>;
  int64_t chunks = CeilDiv(vectors, kUnroll * kThreads), blocks = args.rows.steps * chunks;
  WEFT_CHECK(blocks <= INT32_MAX, "cross_entropy_grad on CUDA: expected fewer than 2^41 logits; split the batch");
  kernel<<<unsigned(blocks), kThreads, 0, DeviceOf(call).stream()>>>(args, uint32_t(chunks), CeilDiv(vectors, chunks));
  WEFT_CUDA_LAUNCHED("cross_entropy_grad");
}

template <Op op>
void Run(const KernelCall& call) {
  const TensorView& logits = call.in[0];
  if (!IsFloating(logits.dtype)) RefuseType(op, logits.dtype, "a float");
  if (logits.NumElements() == 0) return;
  DispatchFloating(logits.dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (op == Op::kCrossEntropy)
      RunLoss<T>(call);
    else
      RunLossGrad<T>(call);
  });
}

}  // namespace

void AddLoss(KernelTable& table) {
  table.Add(Op::kCrossEntropy, {.run = &Run<Op::kCrossEntropy>});
  // In place: a thread reads its logits before it writes them.
  table.Add(Op::kCrossEntropyGrad, {.run = &Run<Op::kCrossEntropyGrad>, .in_place = true});
}

}  // namespace weft::cuda
