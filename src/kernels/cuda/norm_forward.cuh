// RmsNorm and LayerNorm (`center`): y = (x - mean) * rstd * weight + bias, without mean and bias for RmsNorm.
#pragma once
#include "kernels/cuda/copy.h"
#include "kernels/cuda/norm_rows.cuh"

namespace weft::cuda {

template <class T>
struct NormArgs {
  const T *x = nullptr, *weight = nullptr, *bias = nullptr;
  T* y = nullptr;
  Compute<T>*mean = nullptr, *rstd = nullptr, eps = 0;
  Walk at;  // operand 0: x, 1: y, 2: rstd, 3: mean
  RowGroups groups;
  int64_t columns = 0;
};

template <bool center, class T, int U>
__global__ void __launch_bounds__(U == 4 ? 1024 : 512) NormInRegisters(const __grid_constant__ NormArgs<T> args) {
  using C = Compute<T>;
  __shared__ RowSumBuffer<C, 1> buffer;
  const RowGroups& groups = args.groups;
  int lane = int(threadIdx.x) % groups.threads;
  uint32_t row = blockIdx.x * uint32_t(groups.rows) + threadIdx.x / uint32_t(groups.threads);
  // Threads behind the last row stay for the barriers.
  bool live = row < args.at.steps;
  Place at = args.at.At(live ? row : 0);
  Pack16<T> x[U], weight[U], bias[U];  // [U, kPack]
  LoadVectors(args.x + at.of[0], groups, lane, x);
  LoadVectors(args.weight, groups, lane, weight);
  if constexpr (center) LoadVectors(args.bias, groups, lane, bias);
  C columns = C(args.columns), mean = 0;
  if constexpr (center) {
    C sum[1] = {};
#pragma unroll
    for (int i = 0; i < U * kPack<T>; i++) sum[0] += Widen(x[i / kPack<T>].v[i % kPack<T>]);
    SumOverRow(sum, groups.threads, buffer, 0);
    mean = sum[0] / columns;
  }
  C square[1] = {};
#pragma unroll
  for (int i = 0; i < U * kPack<T>; i++) {
    C h = Widen(x[i / kPack<T>].v[i % kPack<T>]) - mean;
    if (!center || i / kPack<T> * groups.threads + lane < groups.vectors) square[0] += h * h;
  }
  SumOverRow(square, groups.threads, buffer, 1);
  C rstd = C(1) / std::sqrt(square[0] / columns + args.eps);
  if (!live) return;
#pragma unroll
  for (int u = 0; u < U; u++) {
    int vector = u * groups.threads + lane;
    if (vector >= groups.vectors) break;
    Pack16<T> y;  // [kPack]
#pragma unroll
    for (int v = 0; v < kPack<T>; v++) {
      C h = (Widen(x[u].v[v]) - mean) * rstd * Widen(weight[u].v[v]);
      y.v[v] = Narrow<T>(center ? h + Widen(bias[u].v[v]) : h);
    }
    reinterpret_cast<Pack16<T>*>(args.y + at.of[1])[vector] = y;
  }
  if (lane != 0) return;
  args.rstd[at.of[2]] = rstd;
  if constexpr (center) args.mean[at.of[3]] = mean;
}

// Any width and any address: a block takes a row and reads it once per pass.
template <bool center, class T>
__global__ void __launch_bounds__(kShortBlock) NormAnyRow(const __grid_constant__ NormArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  Place at = args.at.At(blockIdx.x);
  const T* x = args.x + at.of[0];
  T* y = args.y + at.of[1];
  C columns = C(args.columns), mean = 0, square = 0;
  if constexpr (center) {
    C sum = 0;
    for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) sum += Widen(x[c]);
    mean = BlockReduce(sum, SumOf(), shared) / columns;
  }
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x)
    square += (Widen(x[c]) - mean) * (Widen(x[c]) - mean);
  C rstd = C(1) / std::sqrt(BlockReduce(square, SumOf(), shared) / columns + args.eps);
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) {
    C h = (Widen(x[c]) - mean) * rstd * Widen(args.weight[c]);
    if constexpr (center) h += Widen(args.bias[c]);
    y[c] = Narrow<T>(h);
  }
  if (threadIdx.x != 0) return;
  args.rstd[at.of[2]] = rstd;
  if constexpr (center) args.mean[at.of[3]] = mean;
}

// Input i; where a statistic is to be written over it, its copy in the workspace: all rows read it.
template <class T>
const T* WeightOf(const KernelCall& call, size_t i) {
  if (i >= call.out.size() || call.in[i].data != call.out[i].data) return call.in[i].as<const T>();
  TensorView kept = call.in[i];  // [C]
  kept.data = static_cast<T*>(call.workspace) + int64_t(i - 1) * ColumnsOf(call.in[0]);
  CopyBox(call, kept, call.in[i]);
  return kept.as<const T>();
}

inline size_t NormWorkspace(const KernelCall& call) {
  return 2 * size_t(ColumnsOf(call.in[0])) * SizeOf(call.in[0].dtype);
}

inline unsigned BlockForRow(int64_t columns) {
  return unsigned(std::min<int64_t>(kShortBlock, RoundUp(std::max<int64_t>(columns, 1), kWarp)));
}

template <bool center, class T>
void RunNorm(const KernelCall& call, const char* name) {
  const TensorView &x = call.in[0], &y = call.out[0], &rstd = call.out[center ? 2 : 1];
  const TensorView* mean = center ? &call.out[1] : nullptr;
  if (x.NumElements() == 0) return;
  using C = Compute<T>;
  NormArgs<T> args;
  args.x = x.as<const T>(), args.y = y.as<T>(), args.rstd = rstd.as<C>();
  args.weight = WeightOf<T>(call, 1);
  if constexpr (center) args.bias = WeightOf<T>(call, 2), args.mean = mean->as<C>();
  args.eps = C(call.attrs->Float("eps"));
  args.at = WalkRows(x.rank - 1, {&x, &y, &rstd, mean});
  args.columns = ColumnsOf(x);
  auto kernel = &NormAnyRow<center, T>;
  unsigned blocks = args.at.steps, threads = BlockForRow(args.columns);
  if constexpr (sizeof(T) <= 4) {
    args.groups = RowGroups(args.columns, kPack<T>, 1024);
    bool aligned =
        RowsAligned<T>(x) && RowsAligned<T>(y) && Aligned16(args.weight) && (!center || Aligned16(args.bias));
    if (args.groups.per_thread && aligned) {
      kernel = args.groups.per_thread == 1   ? &NormInRegisters<center, T, 1>
               : args.groups.per_thread == 2 ? &NormInRegisters<center, T, 2>
                                             : &NormInRegisters<center, T, 4>;
      blocks = Blocks(args.at.steps, args.groups.rows), threads = unsigned(args.groups.block());
    }
  }
  kernel<<<blocks, threads, 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED(name);
}

}  // namespace weft::cuda
