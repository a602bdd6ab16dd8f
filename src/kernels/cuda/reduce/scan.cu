// ArgMax, CumSum and SumOfSquares.
#include "weft/core/ops/reduce.h"

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/many.cuh"
#include "weft/kernels/cuda/loops/row_walk.cuh"
#include "weft/kernels/cuda/plan/reduce_plan.h"
#include "weft/kernels/cuda/reduce/reduce.cuh"

#include <memory>

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// Returns a nest over all dims but `dim`. Operand 0 is out, with or without `dim`; operand 1 is in.
Nest Others(const TensorView& x, const TensorView& y, int dim) {
  Nest nest(2);
  bool gone = y.rank < x.rank;
  for (int d = 0; d < x.rank; d++)
    if (d != dim) nest.Add(x.dim(d).extent, {y.dim(gone && d > dim ? d - 1 : d).stride, x.dim(d).stride});
  nest.Collapse();
  return nest;
}

// The larger value, and of equal values the one that comes first. NaN is the largest value, and all NaNs are equal.
template <class C>
struct Best {
  C value;
  int64_t index;
  __device__ void Take(const Best& o) {
    bool equal = o.value == value || (o.value != o.value && value != value);
    bool larger = !(o.value <= value) && value == value;
    if (larger || (equal && o.index < index)) *this = o;
  }
};

template <class C>
__device__ __forceinline__ Best<C> WarpBest(Best<C> best) {
#pragma unroll
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
    best.Take({__shfl_xor_sync(~0u, best.value, lane), __shfl_xor_sync(~0u, best.index, lane)});
  return best;
}

constexpr int kLongRowThreads = 1024;
constexpr int64_t kLongRow = 2048;  // a block takes rows of at least this many elements
constexpr int kAtOnce = 4;          // loads that each thread has in flight

// `threads` threads take one output: a warp, whose block takes several outputs, or a block.
template <class T, int threads>
__global__ void __launch_bounds__(kLongRowThreads)
    ArgMaxRows(const __grid_constant__ Walk walk, const T* data, int64_t length, int64_t stride, int64_t offset,
               int64_t* y) {
  using C = FoldOf<T>;
  uint32_t step = (blockIdx.x * blockDim.x + threadIdx.x) / threads;
  if (step >= walk.steps) return;  // all threads of an output return together
  Place at = walk.At(step);
  const T* x = data + at.of[1];
  Best<C> best{Identity<Kind::kMax, C>(), LLONG_MAX};
  for (int64_t i = threadIdx.x % threads; i < length; i += kAtOnce * threads) {
    Best<C> held[kAtOnce];  // [kAtOnce]
#pragma unroll
    for (int n = 0; n < kAtOnce; n++) {
      int64_t j = i + n * threads;
      held[n] = {Identity<Kind::kMax, C>(), LLONG_MAX};
      if (j < length) held[n] = {C(Widen(x[j * stride])), j};
    }
#pragma unroll
    for (int n = 0; n < kAtOnce; n++) best.Take(held[n]);
  }
  best = WarpBest(best);
  if constexpr (threads > kWarp) {
    __shared__ Best<C> shared[threads / kWarp];
    static_assert(threads == kWarp * kWarp);  // so one warp joins those of all warps
    if (threadIdx.x % kWarp == 0) shared[threadIdx.x / kWarp] = best;
    __syncthreads();
    if (threadIdx.x < kWarp) best = WarpBest(shared[threadIdx.x]);
  }
  if (threadIdx.x % threads) return;
  y[at.of[0]] = (length == 0 ? 0 : best.index) + offset;
}

template <class T>
void ArgMaxAs(const KernelCall& call) {
  int dim = int(call.attrs->Int("dim"));
  const DimView& along = call.in[0].dim(dim);
  ForEachWalk(Others(call.in[0], call.out[0], dim), {}, [&](const Walk& walk) {
    auto launch = [&](auto kernel, unsigned blocks, int threads) {
      kernel<<<blocks, threads, 0, DeviceOf(call).stream()>>>(walk, call.in[0].as<const T>(), along.extent,
                                                              along.stride, along.offset, call.out[0].as<int64_t>());
      WEFT_CUDA_LAUNCHED("arg_max");
    };
    if (along.extent >= kLongRow)
      launch(&ArgMaxRows<T, kLongRowThreads>, walk.steps, kLongRowThreads);
    else
      launch(&ArgMaxRows<T, kWarp>, Blocks(walk.steps, kThreads / kWarp), kThreads);
  });
}
void ArgMax(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { ArgMaxAs<decltype(zero)>(call); });
}

// Each thread takes one row, in order.
template <class T>
__global__ void CumSumRows(const __grid_constant__ Walk walk, const T* data, int64_t length, int64_t x_stride,
                           int64_t y_stride, T* out) {
  uint32_t step = blockIdx.x * kThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  Running<Kind::kSum, T> total = 0;
  for (int64_t i = 0; i < length; i++) {
    total += Term<Kind::kSum>(data[at.of[1] + i * x_stride]);
    out[at.of[0] + i * y_stride] = Result<T>(total);
  }
}

template <class T>
void CumSumAs(const KernelCall& call) {
  int dim = int(call.attrs->Int("dim"));
  const TensorView &x = call.in[0], &y = call.out[0];
  ForEachWalk(Others(x, y, dim), {}, [&](const Walk& walk) {
    CumSumRows<<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(
        walk, x.as<const T>(), x.dim(dim).extent, x.dim(dim).stride, y.dim(dim).stride, y.as<T>());
    WEFT_CUDA_LAUNCHED("cum_sum");
  });
}
void CumSum(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { CumSumAs<decltype(zero)>(call); });
}

// The result of one tensor, whose sum is cut into `pieces`. Join stores a block's sum of one piece, and the last block
// adds up all pieces in a fixed order.
template <class C>
struct SquaresResult {
  double* partial;
  C* y;
  uint32_t* ticket;
  uint32_t pieces;

  __device__ __forceinline__ void Join(double total, uint32_t piece) const {
    __shared__ double shared[kThreads / kWarp];
    total = BlockReduce(total, SumOf(), shared);
    if (threadIdx.x == 0) partial[piece] = total;
    if (!ComesLast(ticket, pieces)) return;
    total = 0;
    for (uint32_t i = threadIdx.x; i < pieces; i += kThreads) total += __ldcg(partial + i);
    total = BlockReduce(total, SumOf(), shared);
    if (threadIdx.x == 0) *y = C(total);
  }
};
template <class C>
SquaresResult<C> ResultOf(const KernelCall& call, int ticket) {
  return {static_cast<double*>(call.workspace), call.out[0].as<C>(), DeviceOf(call).tickets() + ticket,
          uint32_t(SquarePieces(call))};
}

// For any strides.
template <class T>
__global__ void __launch_bounds__(kThreads)
    SquaresOfAny(const __grid_constant__ Walk walk, const T* x, SquaresResult<Compute<T>> result) {
  double total = 0;
  for (uint32_t step = blockIdx.x * kThreads + threadIdx.x; step < walk.steps; step += gridDim.x * kThreads) {
    double value = double(Widen(x[walk.At(step).of[0]]));
    total += value * value;
  }
  result.Join(total, blockIdx.x);
}

// Tensors of one type that are dense but for gaps between rows, for one launch.
template <class T, int most>
struct Squares {
  struct Tensor {
    const Pack16<T>* x;
    SquaresResult<Compute<T>> result;
    int64_t packs;
    PackRows rows;
    uint32_t first;  // first block
  };
  int count = 0;
  uint32_t blocks = 0;
  Tensor tensors[most];
};

template <class T, int most>
__global__ void __launch_bounds__(kThreads) SquaresOfDense(const __grid_constant__ Squares<T, most> all) {
  const auto& tensor = EntryOf(all.tensors, all.count, blockIdx.x);
  uint32_t piece = blockIdx.x - tensor.first;
  int64_t stride = int64_t(tensor.result.pieces) * kThreads;
  double total = 0;
  for (int64_t i = int64_t(piece) * kThreads + threadIdx.x; i < tensor.packs; i += kAtOnce * stride) {
    Pack16<T> held[kAtOnce] = {};  // [kAtOnce, kPack]
#pragma unroll
    for (int n = 0; n < kAtOnce; n++)
      if (i + n * stride < tensor.packs) held[n] = tensor.x[tensor.rows.At(i + n * stride)];
#pragma unroll
    for (int j = 0; j < kAtOnce * kPack<T>; j++) {
      double value = double(Widen(held[j / kPack<T>].v[j % kPack<T>]));
      total += value * value;
    }
  }
  tensor.result.Join(total, piece);
}

// Adds a tensor of whole vectors to the table. Returns false if the tensor is not one, so that it needs its own launch.
template <class T, int most>
bool Enter(Squares<T, most>& all, const KernelCall& call) {
  int64_t count = call.in[0].NumElements();
  std::optional<PackRows> rows = count > 0 ? PackRowsOf(call.in[0], kPack<T>) : std::nullopt;
  if (!rows) return false;
  auto result = ResultOf<Compute<T>>(call, all.count);
  all.tensors[all.count++] = {call.in[0].as<const Pack16<T>>(), result, count / kPack<T>, *rows, all.blocks};
  all.blocks += result.pieces;
  return true;
}

template <class T>
void SumOfSquaresAs(const KernelCall& call) {
  cudaStream_t stream = DeviceOf(call).stream();
  const TensorView* views[] = {&call.in[0]};
  Nest nest = Nest::Over(views);
  if (nest.Count() == 0) return ZeroBox(call, call.out[0]);
  if (Squares<T, 1> one; Enter(one, call)) {
    SquaresOfDense<<<one.blocks, kThreads, 0, stream>>>(one);
    return WEFT_CUDA_LAUNCHED("sum_of_squares");
  }
  auto result = ResultOf<Compute<T>>(call, 0);
  WEFT_CHECK(nest.Count() < INT32_MAX, "sum_of_squares on CUDA: more than 2^31 elements that are not dense");
  ForEachWalk(nest, {}, [&](const Walk& walk) {
    SquaresOfAny<T><<<result.pieces, kThreads, 0, stream>>>(walk, call.in[0].as<const T>(), result);
    WEFT_CUDA_LAUNCHED("sum_of_squares");
  });
}
void SumOfSquares(const KernelCall& call) {
  DispatchFloating(call.in[0].dtype, [&](auto zero) { SumOfSquaresAs<decltype(zero)>(call); });
}

template <class T>
void ManySquaresAs(std::span<const KernelCall> calls) {
  constexpr int kMost = 384;
  static_assert(kMost <= CudaDevice::kTickets && sizeof(Squares<T, kMost>) <= 32764);
  auto all = std::make_unique<Squares<T, kMost>>();
  cudaStream_t stream = DeviceOf(calls[0]).stream();
  auto flush = [&] {
    if (all->count == 0) return;
    SquaresOfDense<<<all->blocks, kThreads, 0, stream>>>(*all);
    WEFT_CUDA_LAUNCHED("sum_of_squares of many");
    all->count = 0, all->blocks = 0;
  };
  for (const KernelCall& call : calls) {
    if (!Enter(*all, call)) SumOfSquares(call);
    if (all->count == kMost) flush();
  }
  flush();
}

void ManySquares(std::span<const KernelCall> calls) {
  DType dtype = calls[0].in[0].dtype;
  bool alike = std::all_of(calls.begin(), calls.end(), [&](const KernelCall& c) { return c.in[0].dtype == dtype; });
  if (!alike) return void(std::for_each(calls.begin(), calls.end(), SumOfSquares));
  DispatchFloating(dtype, [&](auto zero) { ManySquaresAs<decltype(zero)>(calls); });
}

}  // namespace

void AddFolds(KernelTable& table);  // reduce.cu

void AddReduce(KernelTable& table) {
  AddFolds(table);
  SetRun(table, Op::kArgMax, &ArgMax);
  SetRun(table, Op::kCumSum, &CumSum);
  SetRun(table, Op::kSumOfSquares, &SumOfSquares, &ManySquares);
}

}  // namespace weft::cuda
