// Sums of exponentials along rows, relative to a shift per row.
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/elementwise/elementwise.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loss/cross_entropy.cuh"

namespace weft::cuda {
namespace {

template <class T>
struct SumExpArgs {
  const T* x = nullptr;
  const Compute<T>* shift = nullptr;
  Compute<T>* sum = nullptr;
  Walk rows;     // operand 0: x
  Walk per_row;  // operand 0: shift, 1: sum
  int64_t columns = 0;
};

// Each block takes one row. A difference is formed before it is scaled, so that it does not round at the size of x.
template <class T, int V>
__global__ void __launch_bounds__(kMostThreads) SumExpKernel(const __grid_constant__ SumExpArgs<T> args) {
  using C = Compute<T>;
  __shared__ C shared[kWarp];
  const T* row = args.x + args.rows.At(blockIdx.x).of[0];
  Place at = args.per_row.At(blockIdx.x);
  C shift = args.shift[at.of[0]], sum = 0;
  int64_t vectors = args.columns / V, threads = blockDim.x;
  for (int64_t first = threadIdx.x; first < vectors; first += kUnroll * threads) {
    Vector<T, V> x[kUnroll];  // [kUnroll, V]
#pragma unroll
    for (int u = 0; u < kUnroll; u++)
      if (first + u * threads < vectors) x[u] = Vector<T, V>::Load(row + (first + u * threads) * V);
#pragma unroll
    for (int u = 0; u < kUnroll; u++) {
      if (first + u * threads >= vectors) break;
#pragma unroll
      for (int v = 0; v < V; v++) sum += Exponent<T>::Of((x[u][v] - shift) * Exponent<T>::kRate);
    }
  }
  sum = BlockReduce(sum, SumOf(), shared);
  if (threadIdx.x == 0) args.sum[at.of[1]] = sum;
}

template <class T>
void Sum(const KernelCall& call) {
  const TensorView &x = call.in[0], &shift = call.in[1], &sum = call.out[0];
  SumExpArgs<T> args{.x = x.as<const T>(),
                     .shift = shift.as<const Compute<T>>(),
                     .sum = sum.as<Compute<T>>(),
                     .rows = WalkRows(x.rank - 1, {&x}),
                     .per_row = WalkRows(shift.rank, {&shift, &sum}),
                     .columns = ColumnsOf(x)};
  auto kernel = &SumExpKernel<T, 1>;
  int64_t vectors = args.columns;
  if constexpr (sizeof(T) <= 4)
    if (RowsAligned(x, kPack<T>)) kernel = &SumExpKernel<T, kPack<T>>, vectors /= kPack<T>;
  auto threads = unsigned(std::clamp<int64_t>(RoundUp(CeilDiv(vectors, kUnroll), kWarp), kWarp, kMostThreads / 2));
  kernel<<<unsigned(args.per_row.steps), threads, 0, DeviceOf(call).stream()>>>(args);
  WEFT_CUDA_LAUNCHED("sum_exp");
}

void SumExp(const KernelCall& call) {
  const TensorView& x = call.in[0];
  if (!IsFloating(x.dtype)) RefuseType(Op::kSumExp, x.dtype, "a float");
  if (call.out[0].NumElements() == 0) return;
  DispatchFloating(x.dtype, [&](auto zero) { Sum<decltype(zero)>(call); });
}

}  // namespace

void AddSumExp(KernelTable& table) { SetRun(table, Op::kSumExp, &SumExp); }

}  // namespace weft::cuda
