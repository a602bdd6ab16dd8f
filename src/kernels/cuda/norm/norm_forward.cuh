// RmsNorm and LayerNorm (`center`): y = (x - mean) * rstd * weight + bias, without mean and bias for RmsNorm.
#pragma once
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/norm/norm_rows.cuh"

namespace weft::cuda {

inline constexpr int kAnyRowBlock = 256;  // maximum threads for a row that does not fit in registers

template <class T>
struct NormArgs {
  const T* x = nullptr;
  const Compute<T>*weight = nullptr, *bias = nullptr;
  T* y = nullptr;
  Compute<T>*mean = nullptr, *rstd = nullptr, eps = 0;
  Walk at;  // operand 0: x, 1: y, 2: rstd, 3: mean
  RowGroups groups;
  int64_t columns = 0;
  Compute<T> share = 0;  // 1 / columns
};

// Exchanges the halves of a vector if `swap`.
template <class T>
__device__ __forceinline__ void SwapHalves(Vector<T>& x, bool swap) {
#pragma unroll
  for (int w = 0; w < 2; w++) {
    uint32_t low = x.bits.of[w], high = x.bits.of[w + 2];
    x.bits.of[w] = swap ? high : low;
    x.bits.of[w + 2] = swap ? low : high;
  }
}

// Stores the vector of y that begins at `column`. A vector of 16-bit floats needs two 16-byte pieces of weights. Lanes
// 4 to 7 of every eight begin with the second piece, so that no two of the eight hit the same bank of the L1 cache.
template <bool center, class T>
__device__ __forceinline__ void StoreNormed(const NormArgs<T>& args, Vector<T> x, Compute<T> mean, Compute<T> rstd,
                                            int column, T* y) {
  using C = Compute<T>;
  constexpr int V = kPack<T>, N = kPack<C>;
  constexpr bool kHalves = V == 2 * N;
  bool swap = kHalves && threadIdx.x / 4 % 2;
  if constexpr (kHalves) SwapHalves(x, swap);
  x.KeepPacked();
  C values[V];  // [V]
#pragma unroll
  for (int first = 0; first < V; first += N) {
    int at = column + (swap ? V - N - first : first);
    auto weight = *reinterpret_cast<const Pack16<C>*>(args.weight + at);  // [N]
    Pack16<C> bias;                                                       // [N]
    if constexpr (center) bias = *reinterpret_cast<const Pack16<C>*>(args.bias + at);
#pragma unroll
    for (int n = 0; n < N; n++) {
      values[first + n] = (x[first + n] - mean) * rstd * weight.v[n];
      if constexpr (center) values[first + n] += bias.v[n];
    }
  }
  auto normed = Vector<T>::Of(values);
  if constexpr (kHalves) SwapHalves(normed, swap);
  normed.Store(y + column);
}

template <class C>
struct RowStatistics {
  C mean, rstd;
};

// Returns mean and reciprocal deviation of the block's rows, from registers in two passes, which avoids cancellation.
template <bool center, class T, int U>
__device__ __forceinline__ RowStatistics<Compute<T>> StatisticsOf(const NormArgs<T>& args, Vector<T> (&x)[U],
                                                                  RowSumBuffer<Compute<T>, 1>& buffer) {
  using C = Compute<T>;
  constexpr int V = kPack<T>;
  C mean = 0, square[1] = {};
  if constexpr (center) {
    C sum[1] = {};
#pragma unroll
    for (int i = 0; i < U * V; i++) sum[0] += x[i / V][i % V];
    SumOverRow(sum, buffer, 0);
    mean = sum[0] * args.share;
#pragma unroll
    for (int u = 0; u < U; u++) x[u].KeepPacked();
  }
#pragma unroll
  for (int i = 0; i < U * V; i++) {
    C h = x[i / V][i % V] - mean;
    if (!center || i / V * int(blockDim.x) + int(threadIdx.x) < args.groups.vectors) square[0] += h * h;
  }
  SumOverRow(square, buffer, 1);
  return {mean, rsqrt(square[0] * args.share + args.eps)};
}

// The launch bounds give the number of resident threads that kForwardLimits assumes.
template <bool center, class T, int U>
__global__ void __launch_bounds__(kForwardLimits.threads, U == 1 ? 2 : 1)
    NormInRegisters(const __grid_constant__ NormArgs<T> args) {
  __shared__ RowSumBuffer<Compute<T>, 1> buffer;
  int vectors = args.groups.vectors;
  uint32_t row = blockIdx.x * blockDim.y + threadIdx.y;
  // Threads past the last row stay for the barriers.
  bool live = row < args.at.steps;
  Place at = args.at.At(live ? row : 0);
  Vector<T> x[U];  // [U, V]
  LoadVectors(args.x + at.of[0], vectors, x);
  auto [mean, rstd] = StatisticsOf<center>(args, x, buffer);
  if (!live) return;
  if (threadIdx.x == 0) {
    args.rstd[at.of[2]] = rstd;
    if constexpr (center) args.mean[at.of[3]] = mean;
  }
#pragma unroll
  for (int u = 0; u < U; u++) {
    int vector = u * int(blockDim.x) + int(threadIdx.x);
    if (vector >= vectors) break;
    StoreNormed<center>(args, x[u], mean, rstd, vector * kPack<T>, args.y + at.of[1]);
  }
}

// For any width and any address. Each block takes one row and reads it once per pass.
template <bool center, class T>
__global__ void __launch_bounds__(kAnyRowBlock) NormAnyRow(const __grid_constant__ NormArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  Place at = args.at.At(blockIdx.x);
  const T* x = args.x + at.of[0];
  T* y = args.y + at.of[1];
  C mean = 0, square = 0;
  if constexpr (center) {
    C sum = 0;
    for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) sum += Widen(x[c]);
    mean = BlockReduce(sum, SumOf(), shared) * args.share;
  }
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x)
    square += (Widen(x[c]) - mean) * (Widen(x[c]) - mean);
  C rstd = rsqrt(BlockReduce(square, SumOf(), shared) * args.share + args.eps);
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) {
    C h = (Widen(x[c]) - mean) * rstd * args.weight[c];
    if constexpr (center) h += args.bias[c];
    y[c] = Narrow<T>(h);
  }
  if (threadIdx.x != 0) return;
  args.rstd[at.of[2]] = rstd;
  if constexpr (center) args.mean[at.of[3]] = mean;
}

// Returns input i. If a statistic will overwrite it, returns its copy in the workspace, because all rows read it.
template <class C>
const C* WeightOf(const KernelCall& call, size_t i) {
  if (i >= call.out.size() || call.in[i].data != call.out[i].data) return call.in[i].as<const C>();
  TensorView kept = call.in[i];  // [C]
  kept.data = static_cast<C*>(call.workspace) + int64_t(i - 1) * ColumnsOf(call.in[0]);
  CopyBox(call, kept, call.in[i]);
  return kept.as<const C>();
}

inline unsigned BlockForRow(int64_t columns) {
  return unsigned(std::min<int64_t>(kAnyRowBlock, RoundUp(std::max<int64_t>(columns, 1), kWarp)));
}

template <bool center, class T>
void LaunchNorm(const KernelCall& call, const char* name, NormArgs<T>& args) {
  auto kernel = &NormAnyRow<center, T>;
  unsigned blocks = args.at.steps;
  dim3 threads = BlockForRow(args.columns);
  if constexpr (sizeof(T) <= 4) {
    args.groups = GroupsOf(args.columns, kPack<T>, kForwardLimits);
    bool aligned = RowsAligned(call.in[0], kPack<T>) && RowsAligned(call.out[0], kPack<T>) && Aligned16(args.weight) &&
                   (!center || Aligned16(args.bias));
    if (args.groups.per_thread && aligned) {
      constexpr void (*kKernels[])(NormArgs<T>) = {&NormInRegisters<center, T, 1>, &NormInRegisters<center, T, 2>,
                                                   &NormInRegisters<center, T, 3>, &NormInRegisters<center, T, 4>};
      kernel = kKernels[args.groups.per_thread - 1];
      blocks = Blocks(args.at.steps, args.groups.rows), threads = ShapeOf(args.groups);
    }
  }
  kernel<<<blocks, threads, 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED(name);
}

template <bool center, class T>
void RunNorm(const KernelCall& call, const char* name) {
  using C = Compute<T>;
  const TensorView &x = call.in[0], &y = call.out[0], &rstd = call.out[center ? 2 : 1];
  const TensorView* mean = center ? &call.out[1] : nullptr;
  if (x.NumElements() == 0) return;
  NormArgs<T> args;
  args.x = x.as<const T>(), args.y = y.as<T>(), args.rstd = rstd.as<C>();
  args.weight = WeightOf<C>(call, 1);
  if constexpr (center) args.bias = WeightOf<C>(call, 2), args.mean = mean->as<C>();
  args.eps = C(call.attrs->Float("eps"));
  args.at = WalkRows(x.rank - 1, {&x, &y, &rstd, mean});
  args.columns = ColumnsOf(x);
  args.share = C(1.0 / double(args.columns));
  LaunchNorm<center, T>(call, name, args);
}

}  // namespace weft::cuda
