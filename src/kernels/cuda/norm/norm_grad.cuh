// Runs the gradients of the norms: the kernel of norm_backward.cuh, or the kernels here, which take any row, and then
// the sums over blocks. The number of blocks depends only on shape and dtype, never on the device, so that all
// devices add in the same order.
#pragma once
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/join_parts.cuh"
#include "weft/kernels/cuda/norm/norm_backward.cuh"
#include "weft/kernels/cuda/norm/norm_forward.cuh"

namespace weft::cuda {

inline constexpr int kColumnTile = 32;  // columns per block in the kernels that sum columns

// Sums one value per thread over the rows of a block of `rows` by 32 threads. Every thread gets the sum of its column.
template <int rows, class C>
__device__ __forceinline__ C SumOfColumn(C value, C (&shared)[rows][kColumnTile]) {
  int column = int(threadIdx.x) % kColumnTile;
  shared[threadIdx.x / kColumnTile][column] = value;
  __syncthreads();
  C sum = shared[0][column];
  for (int r = 1; r < rows; r++) sum += shared[r][column];
  __syncthreads();
  return sum;
}

// For any width and any address. Each block takes one row and reads it twice.
template <bool center, class T>
__global__ void __launch_bounds__(kAnyRowBlock) NormGradAnyRow(const __grid_constant__ NormGradArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  Place at = args.at.At(blockIdx.x), stats = args.stats.At(blockIdx.x);
  const T *x = args.x + at.of[0], *dy = args.dy + at.of[1];
  C rstd = args.rstd[stats.of[0]], mean = 0, dot = 0, sum = 0;
  if constexpr (center) mean = args.mean[stats.of[1]];
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) {
    C along = args.weight[c] * Widen(dy[c]);
    dot += along * ((Widen(x[c]) - mean) * rstd);
    if constexpr (center) sum += along;
  }
  dot = BlockReduce(dot, SumOf(), shared) * args.share;
  if constexpr (center) sum = BlockReduce(sum, SumOf(), shared) * args.share;
  for (int64_t c = threadIdx.x; c < args.columns; c += blockDim.x) {
    C d = rstd * (args.weight[c] * Widen(dy[c]) - sum - (Widen(x[c]) - mean) * rstd * dot);
    if (args.add) d += Widen(args.add[at.of[3] + c]);
    args.dx[at.of[2] + c] = Narrow<T>(d);
  }
}

// The column sums that go with NormGradAnyRow. It runs before that kernel, because dx may overwrite x.
template <bool center, class T>
__global__ void __launch_bounds__(kColumnTile* kColumnRows)
    NormGradAnyColumn(const __grid_constant__ NormGradArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kColumnRows][kColumnTile];
  int64_t column = int64_t(blockIdx.x) * kColumnTile + threadIdx.x % kColumnTile;
  C dweight = 0, dbias = 0;
  int64_t row = int64_t(blockIdx.y) * kColumnRows + threadIdx.x / kColumnTile;
  for (; row < args.at.steps && column < args.columns; row += int64_t(gridDim.y) * kColumnRows) {
    Place at = args.at.At(uint32_t(row)), stats = args.stats.At(uint32_t(row));
    C mean = 0, dy = Widen(args.dy[at.of[1] + column]);
    if constexpr (center) mean = args.mean[stats.of[1]];
    dweight += dy * ((Widen(args.x[at.of[0] + column]) - mean) * args.rstd[stats.of[0]]);
    dbias += dy;
  }
  C* partial = args.partial + int64_t(blockIdx.y) * (center ? 2 : 1) * args.columns;
  bool writes = threadIdx.x < kColumnTile && column < args.columns;
  dweight = SumOfColumn(dweight, shared);
  if (writes) partial[column] = dweight;
  if constexpr (center) dbias = SumOfColumn(dbias, shared);
  if (center && writes) partial[args.columns + column] = dbias;
}

// Joins dweight and dbias from the `blocks` partial sums of each.
template <class C>
__global__ void __launch_bounds__(kMostJoinThreads)
    NormGradFinish(const C* partial, int blocks, int64_t columns, int sums, C* dweight, C* dbias) {
  int64_t at = JoinedOutput(), stride = sums * columns;
  AwaitPrevious();
  C sum = JoinedParts(at < stride ? partial + at : nullptr, blocks, stride, C(0), SumOf());
  if (threadIdx.x < kJoinOutputs && at < stride) (at < columns ? dweight + at : dbias + at - columns)[0] = sum;
}

// Returns whether all tensors are aligned for vectors.
template <class T>
bool GradAligned(const KernelCall& call, const TensorView& dy, const TensorView* add) {
  const TensorView &x = call.in[0], &dx = call.out[0];
  return RowsAligned(x, kPack<T>) && RowsAligned(dy, kPack<T>) && RowsAligned(dx, kPack<T>) &&
         Aligned16(call.in[1].data) && (!add || RowsAligned(*add, kPack<T>));
}

template <bool center, class T>
void LaunchNormGrad(const KernelCall& call, const char* name, const NormGradArgs<T>& args, int64_t blocks,
                    bool vectors) {
  cudaStream_t stream = DeviceOf(call).stream();
  if constexpr (sizeof(T) <= 4) {
    size_t shared = GradShared<center, T>(args.groups, args.add);
    if (vectors && shared <= DeviceOf(call).shared_bytes()) {
      constexpr void (*kKernels[][4])(NormGradArgs<T>) = {
          {&NormGradInRegisters<center, T, 1, false>, &NormGradInRegisters<center, T, 2, false>,
           &NormGradInRegisters<center, T, 3, false>, &NormGradInRegisters<center, T, 4, false>},
          {&NormGradInRegisters<center, T, 1, true>, &NormGradInRegisters<center, T, 2, true>,
           &NormGradInRegisters<center, T, 3, true>, &NormGradInRegisters<center, T, 4, true>}};
      auto* kernel = kKernels[IsWide(args.groups)][args.groups.per_thread - 1];
      AllowAllShared(DeviceOf(call), kernel);
      kernel<<<unsigned(blocks), ShapeOf(args.groups), shared, stream>>>(args);
      return WEFT_CUDA_LAUNCHED(name);
    }
  }
  dim3 tiles(Blocks(uint32_t(args.columns), kColumnTile), unsigned(blocks));
  NormGradAnyColumn<center, T><<<tiles, kColumnTile * kColumnRows, 0, stream>>>(args);
  WEFT_CUDA_LAUNCHED(name);
  NormGradAnyRow<center, T><<<args.at.steps, BlockForRow(args.columns), 0, stream>>>(args);
  WEFT_CUDA_LAUNCHED(name);
}

template <bool center, class T>
void RunNormGrad(const KernelCall& call, const char* name, bool adds) {
  using C = Compute<T>;
  const TensorView &x = call.in[0], &rstd = call.in[center ? 3 : 2], &dy = call.in[center ? 4 : 3], &dx = call.out[0];
  const TensorView *mean = center ? &call.in[2] : nullptr, *add = adds ? &call.in.back() : nullptr;
  if (x.NumElements() == 0) {
    for (const TensorView& sum : call.out.subspan(1)) ZeroBox(call, sum);
    return;
  }
  int64_t columns = ColumnsOf(x);
  NormGradArgs<T> args;
  args.x = x.as<const T>(), args.weight = call.in[1].as<const C>(), args.dy = dy.as<const T>(), args.dx = dx.as<T>();
  if (adds) args.add = add->as<const T>();
  args.rstd = rstd.as<const C>();
  if (center) args.mean = mean->as<const C>();
  args.partial = static_cast<C*>(call.workspace);
  args.at = WalkRows(x.rank - 1, {&x, &dy, &dx, add});
  args.stats = WalkRows(x.rank - 1, {&rstd, mean});
  args.groups = GradGroups(columns, sizeof(T));
  args.columns = columns;
  args.share = C(1.0 / double(columns));
  int64_t blocks = GradBlocks(args.at.steps, args.groups);
  LaunchNormGrad<center, T>(call, name, args, blocks, args.groups.per_thread && GradAligned<T>(call, dy, add));
  constexpr int kSums = center ? 2 : 1;
  LaunchEarly(DeviceOf(call), name, &NormGradFinish<C>, Blocks(uint32_t(kSums * columns), kJoinOutputs),
              JoinThreads(blocks), args.partial, int(blocks), columns, kSums, call.out[1].as<C>(),
              center ? call.out[2].as<C>() : nullptr);
}

// The kernel-table functions of one norm.
template <Op op, bool center>
void NormRow(const KernelCall& call) {
  if (!IsFloating(call.in[0].dtype)) RefuseType(op, call.in[0].dtype, "a float");
  DispatchFloating(call.in[0].dtype, [&](auto zero) { RunNorm<center, decltype(zero)>(call, Name(op)); });
}
template <Op op, bool center, bool adds>
void NormGradRow(const KernelCall& call) {
  if (!IsFloating(call.in[0].dtype)) RefuseType(op, call.in[0].dtype, "a float");
  DispatchFloating(call.in[0].dtype, [&](auto zero) { RunNormGrad<center, decltype(zero)>(call, Name(op), adds); });
}

}  // namespace weft::cuda
