// Shared by the kernels of cross-entropy: exponentials, the running state of a row, the gradient of a row. A row of
// logits is read once for its loss: every thread keeps a running maximum and a sum of exponentials relative to it
// (Milakov, Gimelshein, "Online normalizer calculation for softmax", 2018).
//
// A kernel cannot report a target outside the vocabulary. It sets the loss and the row of the gradient to NaN instead.
#pragma once
#include <cfloat>
#include <cmath>
#include <limits>

#include "weft/core/ops/loss.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/loops/vector.cuh"
#include "weft/kernels/cuda/plan/loss_sizes.h"

namespace weft::cuda {

inline constexpr int kMostThreads = 1024;

// Exponentials of logits of type T. 16-bit types use base two and the hardware's instruction: one multiply-add and one
// exponential per element keep up with memory, but exp() does not.
template <class T>
struct Exponent {
  using C = Compute<T>;
  static constexpr bool kFast = sizeof(T) == 2;
  static constexpr C kRate = kFast ? C(1.4426950408889634) : C(1);  // scale of the shifts relative to logits
  __device__ static __forceinline__ C Of(C difference) {
    if constexpr (kFast) {
      float y;
      asm("ex2.approx.ftz.f32 %0, %1;" : "=f"(y) : "f"(difference));
      return y;
    } else {
      return std::exp(difference);
    }
  }
  // Returns exp(x - shift / kRate).
  __device__ static __forceinline__ C Shifted(C x, C shift) {
    return Of(kFast ? fmaf(float(x), float(kRate), -float(shift)) : x - shift);
  }
  // Returns the logarithm of sum * exp(shift / kRate), with the same rounded rate.
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
  // The logits may be a shard of the vocabulary: `columns` tokens from `first` on, of `vocab`.
  int64_t columns = 0, first = 0, vocab = 0, ignore = 0;
  int target_bytes = 0;
  double smoothing = 0;
  Compute<T> even = 0, at_target = 0;  // subtracted by the gradient from each probability, and from the target's

  void SetVocab(const TensorView& logits) {
    const DimView& dim = logits.dim(logits.rank - 1);
    columns = dim.extent, first = dim.offset, vocab = dim.global;
  }
  void SetSmoothing(const Attrs& attrs) {
    ignore = attrs.Int("ignore_index");
    smoothing = attrs.Float("smoothing");
    even = Compute<T>(smoothing) / Compute<T>(vocab);
    at_target = 1 - Compute<T>(smoothing);
  }
  __device__ int64_t Target(int64_t at) const {
    if (target_bytes == 8) return static_cast<const int64_t*>(targets)[at];
    if (target_bytes == 4) return static_cast<const int32_t*>(targets)[at];
    return static_cast<const uint8_t*>(targets)[at];
  }
};

// The state of a thread for its part of a row. The shift starts finite, because -inf - -inf would be NaN.
template <class T>
struct Running {
  using C = Compute<T>;
  C shift = -std::numeric_limits<C>::max(), sum = 0, total = 0;  // sum of exponentials; total of logits

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
    int64_t vectors = columns / V;
    for (int64_t at = threadIdx.x; at < vectors; at += kUnroll * threads) {
      Vector<T, V> several[kUnroll];  // [kUnroll, V]
#pragma unroll
      for (int u = 0; u < kUnroll; u++)
        if (at + u * threads < vectors) several[u] = Vector<T, V>::Load(row + (at + u * threads) * V);
      if (at + (kUnroll - 1) * threads < vectors) {
        Add(several, totals);
        continue;
      }
#pragma unroll
      for (int u = 0; u < kUnroll - 1; u++)
        if (at + u * threads < vectors) Add({several[u]}, totals);
    }
  }

  // Joins the states of all threads of the block. Every thread gets the result.
  __device__ __forceinline__ void Join(C* shared, bool totals) {
    C before = shift;
    shift = BlockReduce(shift, MaxOf(), shared);
    sum = BlockReduce(sum * Exponent<T>::Of(before - shift), SumOf(), shared);
    if (totals) total = BlockReduce(total, SumOf(), shared);
  }
};

// Returns the loss of a row with this target. `picked` is the target's logit, and `lse` is the row's log-sum-exp.
template <class T>
__device__ __forceinline__ double LossOfRow(const LossArgs<T>& args, const Running<T>& row, double lse, int64_t target,
                                            double picked) {
  if (target == args.ignore) return 0;
  if (target < 0 || target >= args.columns) return NAN;
  double loss = lse - (1 - args.smoothing) * picked;
  return args.smoothing != 0 ? loss - args.smoothing * double(row.total) / double(args.columns) : loss;
}

// The values that the gradient of a row needs: dlogit = scale * (exp(x - lse) - even - (1 - smoothing) at the target).
template <class T>
struct RowGrad {
  using C = Compute<T>;
  int64_t target;                 // the target's column, which another rank may hold
  C lse, scale, even, at_target;  // the last two: see LossArgs
  bool ignored;

  __device__ __forceinline__ RowGrad(const LossArgs<T>& args, int64_t target_, C lse_, C dloss)
      : target(target_ - args.first),
        lse(lse_),
        even(args.even),
        at_target(args.at_target),
        ignored(target_ == args.ignore) {
    bool known = target_ >= 0 && target_ < args.vocab;
    scale = known ? dloss : C(NAN);
  }
  // `first` is the column at which the vector begins.
  template <int V>
  __device__ __forceinline__ Vector<T, V> Of(const Vector<T, V>& x, int64_t first) const {
    int place = target >= first && target < first + V ? int(target - first) : -1;  // of the target in the vector, or -1
    C d[V];                                                                        // [V]
#pragma unroll
    for (int v = 0; v < V; v++) {
      C p = Exponent<T>::Of((x[v] - lse) * Exponent<T>::kRate) - (place == v ? at_target : C(0));
      d[v] = ignored ? C(0) : scale * (p - even);
    }
    return Vector<T, V>::Of(d);
  }
};

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
  args.SetVocab(logits);
  args.SetSmoothing(*call.attrs);
  return args;
}

}  // namespace weft::cuda
