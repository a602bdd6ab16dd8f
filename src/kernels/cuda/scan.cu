// ArgMax, CumSum and SumOfSquares.
#include "core/ops/reduce.h"

#include "kernels/cuda/block.cuh"
#include "kernels/cuda/device.h"
#include "kernels/cuda/families.h"
#include "kernels/cuda/index.cuh"
#include "kernels/cuda/reduce.cuh"

#include <memory>

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// All dims but `dim`; operand 0: out (of which `dim` is gone or not), 1: in.
Nest Others(const TensorView& x, const TensorView& y, int dim) {
  Nest nest(2);
  bool gone = y.rank < x.rank;
  for (int d = 0; d < x.rank; d++)
    if (d != dim) nest.Add(x.dim(d).extent, {y.dim(gone && d > dim ? d - 1 : d).stride, x.dim(d).stride});
  nest.Collapse();
  return nest;
}

// The larger value, and of equals the one that comes first.
template <class C>
struct Best {
  C value;
  int64_t index;
  __device__ void Take(const Best& o) {
    if (o.value > value || (o.value == value && o.index < index)) *this = o;
  }
};

// A warp an output. Element 0 wins against what compares with nothing: a NaN there stays, elsewhere it is passed over.
template <class T>
__global__ void ArgMaxRows(const __grid_constant__ Walk walk, const T* data, int64_t length, int64_t stride,
                           int64_t offset, int64_t* y) {
  using C = FoldOf<T>;
  uint32_t step = (blockIdx.x * kThreads + threadIdx.x) / kWarp;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  const T* x = data + at.of[1];
  Best<C> best{Identity<Kind::kMax, C>(), LLONG_MAX};
  for (int64_t i = threadIdx.x % kWarp; i < length; i += kWarp) best.Take({C(Widen(x[i * stride])), i});
  for (int lane = kWarp / 2; lane > 0; lane /= 2)
    best.Take({__shfl_xor_sync(~0u, best.value, lane), __shfl_xor_sync(~0u, best.index, lane)});
  if (threadIdx.x % kWarp) return;
  C first = length > 0 ? C(Widen(x[0])) : C(0);
  bool none = length == 0 || first != first || best.index == LLONG_MAX;
  y[at.of[0]] = (none ? 0 : best.index) + offset;
}

template <class T>
void ArgMaxAs(const KernelCall& call) {
  int dim = int(call.attrs->Int("dim"));
  const DimView& along = call.in[0].dim(dim);
  ForEachWalk(Others(call.in[0], call.out[0], dim), {}, [&](const Walk& walk) {
    ArgMaxRows<<<Blocks(walk.steps, kThreads / kWarp), kThreads, 0, DeviceOf(call).stream()>>>(
        walk, call.in[0].as<const T>(), along.extent, along.stride, along.offset, call.out[0].as<int64_t>());
    WEFT_CUDA_LAUNCHED("arg_max");
  });
}
void ArgMax(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { ArgMaxAs<decltype(zero)>(call); });
}

// A thread a row, in order.
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

constexpr int64_t kPiece = 16384;     // elements of a block: fixed, so that the order of the sum is
constexpr int64_t kMostPieces = 528;  // what an H200 runs at a time: more would leave it half empty at the end

int64_t Pieces(const KernelCall& call) {
  return std::clamp<int64_t>(CeilDiv(call.in[0].NumElements(), kPiece), 1, kMostPieces);
}
size_t SumOfSquaresWorkspace(const KernelCall& call) { return size_t(Pieces(call)) * sizeof(double); }

template <class T, int V>
__global__ void __launch_bounds__(kThreads)
    SquareParts(const __grid_constant__ Walk walk, const T* x, double* partial) {
  __shared__ double shared[kThreads / kWarp];
  double total = 0;
#pragma unroll 4
  for (uint32_t step = blockIdx.x * kThreads + threadIdx.x; step < walk.steps; step += gridDim.x * kThreads) {
    auto pack = *reinterpret_cast<const Pack<T, V>*>(x + walk.At(step).of[0]);  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) {
      double value = double(Widen(pack.v[v]));
      total += value * value;
    }
  }
  total = BlockReduce(total, SumOf(), shared);
  if (threadIdx.x == 0) partial[blockIdx.x] = total;
}

template <class C>
__global__ void JoinSquares(const double* partial, int64_t parts, C* y) {
  __shared__ double shared[kThreads / kWarp];
  double total = 0;
  for (int64_t i = threadIdx.x; i < parts; i += kThreads) total += partial[i];
  total = BlockReduce(total, SumOf(), shared);
  if (threadIdx.x == 0) *y = C(total);
}

template <class T>
void SumOfSquaresAs(const KernelCall& call) {
  const TensorView* views[] = {&call.in[0]};
  Nest nest = Nest::Over(views);
  double* partial = static_cast<double*>(call.workspace);
  cudaStream_t stream = DeviceOf(call).stream();
  int64_t pieces = nest.Count() > 0 ? Pieces(call) : 0;
  constexpr int V = kPack<T>;
  bool vectors =
      nest.rank == 1 && nest.inner_stride(0) == 1 && nest.inner_extent() % V == 0 && Aligned16(call.in[0].data);
  if (vectors) nest.extents[0] /= V, nest.strides[0][0] = V;
  WEFT_CHECK(nest.Count() < INT32_MAX, "sum_of_squares on CUDA: more than 2^31 vectors; shard the tensor");
  ForEachWalk(nest, {}, [&](const Walk& walk) {
    if (vectors)
      SquareParts<T, V><<<unsigned(pieces), kThreads, 0, stream>>>(walk, call.in[0].as<const T>(), partial);
    else
      SquareParts<T, 1><<<unsigned(pieces), kThreads, 0, stream>>>(walk, call.in[0].as<const T>(), partial);
    WEFT_CUDA_LAUNCHED("sum_of_squares");
  });
  using C = Compute<T>;
  JoinSquares<<<1, kThreads, 0, stream>>>(partial, pieces, call.out[0].as<C>());
  WEFT_CUDA_LAUNCHED("sum_of_squares");
}
void SumOfSquares(const KernelCall& call) {
  DispatchFloating(call.in[0].dtype, [&](auto zero) { SumOfSquaresAs<decltype(zero)>(call); });
}

// Many dense tensors of one type by two launches.
struct Squares {
  struct Tensor {
    const void* x;
    double* partial;
    void* y;
    int64_t packs;
    uint32_t first, pieces;  // blocks
  };
  static constexpr int kMost = 512;
  int count = 0;
  uint32_t blocks = 0;
  Tensor tensors[kMost];
};

// The last tensor that starts at or before the block.
__device__ __forceinline__ const Squares::Tensor& TensorOf(const Squares& all, uint32_t block) {
  int low = 0, high = all.count;
  while (high - low > 1) {
    int middle = (low + high) / 2;
    (all.tensors[middle].first <= block ? low : high) = middle;
  }
  return all.tensors[low];
}

template <class T, int V>
__global__ void __launch_bounds__(kThreads) ManySquareParts(const __grid_constant__ Squares all) {
  __shared__ double shared[kThreads / kWarp];
  const Squares::Tensor& tensor = TensorOf(all, blockIdx.x);
  uint32_t piece = blockIdx.x - tensor.first;
  auto* x = static_cast<const Pack<T, V>*>(tensor.x);
  double total = 0;
#pragma unroll 4
  for (int64_t i = int64_t(piece) * kThreads + threadIdx.x; i < tensor.packs; i += int64_t(tensor.pieces) * kThreads) {
    Pack<T, V> pack = x[i];  // [V]
#pragma unroll
    for (int v = 0; v < V; v++) {
      double value = double(Widen(pack.v[v]));
      total += value * value;
    }
  }
  total = BlockReduce(total, SumOf(), shared);
  if (threadIdx.x == 0) tensor.partial[piece] = total;
}

template <class C>
__global__ void ManyJoinSquares(const __grid_constant__ Squares all) {
  __shared__ double shared[kThreads / kWarp];
  const Squares::Tensor& tensor = all.tensors[blockIdx.x];
  double total = 0;
  for (uint32_t i = threadIdx.x; i < tensor.pieces; i += kThreads) total += tensor.partial[i];
  total = BlockReduce(total, SumOf(), shared);
  if (threadIdx.x == 0) *static_cast<C*>(tensor.y) = C(total);
}

// Room in the table for a dense tensor of vectors; false: it goes alone.
template <class T>
bool Enter(Squares& all, const KernelCall& call) {
  const TensorView* views[] = {&call.in[0]};
  Nest nest = Nest::Over(views);
  int64_t count = nest.Count();
  bool dense = count > 0 && count % kPack<T> == 0 && nest.rank <= 1 && nest.inner_stride(0) == 1;
  if (!dense || !Aligned16(call.in[0].data)) return false;
  auto pieces = uint32_t(Pieces(call));
  all.tensors[all.count++] = {
      call.in[0].data, static_cast<double*>(call.workspace), call.out[0].data, count / kPack<T>, all.blocks, pieces};
  all.blocks += pieces;
  return true;
}

template <class T>
void ManySquaresAs(std::span<const KernelCall> calls) {
  auto all = std::make_unique<Squares>();
  cudaStream_t stream = DeviceOf(calls[0]).stream();
  auto flush = [&] {
    if (all->count == 0) return;
    ManySquareParts<T, kPack<T>><<<all->blocks, kThreads, 0, stream>>>(*all);
    WEFT_CUDA_LAUNCHED("sum_of_squares of many");
    ManyJoinSquares<Compute<T>><<<unsigned(all->count), kThreads, 0, stream>>>(*all);
    WEFT_CUDA_LAUNCHED("sum_of_squares of many");
    all->count = 0, all->blocks = 0;
  };
  for (const KernelCall& call : calls) {
    if (!Enter<T>(*all, call)) SumOfSquares(call);
    if (all->count == Squares::kMost) flush();
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
  table.Add(Op::kArgMax, {.run = &ArgMax, .any_strides = true});
  table.Add(Op::kCumSum, {.run = &CumSum, .any_strides = true});
  table.Add(Op::kSumOfSquares,
            {.run = &SumOfSquares, .workspace = &SumOfSquaresWorkspace, .run_many = &ManySquares, .any_strides = true});
}

}  // namespace weft::cuda
