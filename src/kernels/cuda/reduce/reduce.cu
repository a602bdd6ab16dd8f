// Reductions over one dim. If outputs are neighbours in storage, a block takes 32 vectors of them, and its warps take
// turns down the dim. The dim is split over blocks, whose parts are joined in a fixed order. Otherwise a warp or a
// block takes one output.
#include "weft/core/ops/reduce.h"

#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/device/launch.cuh"
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/index.cuh"
#include "weft/kernels/cuda/loops/join_parts.cuh"
#include "weft/kernels/cuda/plan/reduce_plan.h"
#include "weft/kernels/cuda/reduce/reduce.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = kReduceThreads;
constexpr int64_t kLongRow = 1024;  // a block takes rows of at least this many loads
constexpr int kDown = kReduceDown;
// Terms that each thread has in flight. 16-bit types have more, which it adds up in f32.
template <class T>
constexpr int kAtOnce = sizeof(T) == 2 ? 8 : 4;

using Dim = ReduceDim;

// Each lane takes V outputs, and each warp every kDown-th term of part blockIdx.y of the dim. Writes `partial` [parts,
// outputs], or y if `partial` is null.
template <Kind kind, class T, int V, class Out>
__global__ void __launch_bounds__(kThreads)
    ReduceColumns(const __grid_constant__ Walk walk, Dim dim, int64_t per_part, Out* y, Running<kind, T>* partial,
                  int64_t outputs, int64_t first) {
  using A = Running<kind, T>;
  constexpr int kN = kAtOnce<T>;
  LetNextStart();
  __shared__ A shared[kDown][V][kWarp];
  int lane = int(threadIdx.x) % kWarp, warp = int(threadIdx.x) / kWarp;
  uint32_t step = blockIdx.x * kWarp + lane;
  bool live = step < walk.steps;
  Place at = walk.At(live ? step : 0);
  int64_t i = blockIdx.y * per_part + warp, end = min((blockIdx.y + 1) * per_part, dim.length);
  const T* x = static_cast<const T*>(dim.x) + at.of[1];
  A total[V];
#pragma unroll
  for (int v = 0; v < V; v++) total[v] = Identity<kind, A>();
  auto add = [&](auto whole) {
    Pack<T, V> packs[kN];  // [kN, V]
#pragma unroll
    for (int n = 0; n < kN; n++) {
      if constexpr (!whole)
#pragma unroll
        for (int v = 0; v < V; v++) packs[n].v[v] = Neutral<kind, T>();
      if (whole || i + n * kDown < end) packs[n] = *reinterpret_cast<const Pack<T, V>*>(x + (i + n * kDown) * dim.step);
    }
#pragma unroll
    for (int v = 0; v < V; v++) {
      T terms[kN];  // [kN]
#pragma unroll
      for (int n = 0; n < kN; n++) terms[n] = packs[n].v[v];
      total[v] = Join<kind>()(total[v], JoinOf<kind>(terms));
    }
  };
  for (; i + (kN - 1) * kDown < end; i += kN * kDown) add(std::true_type());
  if (i < end) add(std::false_type());
#pragma unroll
  for (int v = 0; v < V; v++) shared[warp][v][lane] = total[v];
  __syncthreads();
  if (!live) return;
  for (int v = warp; v < V; v += kDown) {
    A all = shared[0][v][lane];
    for (int w = 1; w < kDown; w++) all = Join<kind>()(all, shared[w][v][lane]);
    if (partial)
      partial[blockIdx.y * outputs + first + int64_t(step) * V + v] = all;
    else
      y[at.of[0] + v] = Result<Out>(all);
  }
}

template <Kind kind, class A, class Out>
__global__ void __launch_bounds__(kMostJoinThreads)
    JoinParts(const __grid_constant__ Walk walk, const A* partial, int parts, int64_t outputs, int64_t first, Out* y) {
  int64_t step = JoinedOutput();
  bool live = step < walk.steps;
  AwaitPrevious();
  A total = JoinedParts(live ? partial + first + step : nullptr, parts, outputs, Identity<kind, A>(), Join<kind>());
  if (threadIdx.x < kJoinOutputs && live) y[walk.At(uint32_t(step)).of[0]] = Result<Out>(total);
}

// `threads` threads take one output, V terms at a time. With 32 they are a warp, and the block takes several outputs.
template <Kind kind, class T, int threads, int V, class Out>
__global__ void __launch_bounds__(kThreads) ReduceRows(const __grid_constant__ Walk walk, Dim dim, Out* y) {
  using A = Running<kind, T>;
  __shared__ A shared[kThreads / kWarp];
  uint32_t step = blockIdx.x * (kThreads / threads) + threadIdx.x / threads;
  if (step >= walk.steps) return;  // all threads of an output return together
  Place at = walk.At(step);
  const T* x = static_cast<const T*>(dim.x) + at.of[1];
  A total = Identity<kind, A>();
#pragma unroll 4
  for (int64_t i = threadIdx.x % threads; i < dim.length / V; i += threads) {
    auto pack = *reinterpret_cast<const Pack<T, V>*>(x + i * (V == 1 ? dim.step : V));  // [V]
    total = Join<kind>()(total, JoinOf<kind>(pack.v));
  }
  total = threads == kWarp ? WarpReduce(total, Join<kind>()) : BlockReduce(total, Join<kind>(), shared);
  if (threadIdx.x % threads == 0) y[at.of[0]] = Result<Out>(total);
}

bool Divisible(const Nest& nest, int64_t v) {
  if (nest.inner_extent() % v || nest.inner_stride(0) != 1) return false;
  for (int d = 0; d + 1 < nest.rank; d++)
    if (nest.strides[size_t(d)][0] % v || nest.strides[size_t(d)][1] % v) return false;
  return true;
}

template <Kind kind, class T, int V, class Out>
void LaunchColumns(const KernelCall& call, const ReducePlan& plan, Nest vectors) {
  auto* partial = plan.parts > 1 ? static_cast<Running<kind, T>*>(call.workspace) : nullptr;
  vectors.extents[size_t(vectors.rank - 1)] /= V;
  for (size_t o = 0; o < 2; o++) vectors.strides[size_t(vectors.rank - 1)][o] *= V;
  cudaStream_t stream = DeviceOf(call).stream();
  int64_t per_part = CeilDiv(plan.dim.length, plan.parts), first = 0;
  ForEachWalk(vectors, {}, [&](const Walk& walk) {
    dim3 grid(Blocks(walk.steps, kWarp), unsigned(plan.parts));
    ReduceColumns<kind, T, V, Out><<<grid, kThreads, 0, stream>>>(walk, plan.dim, per_part, call.out[0].as<Out>(),
                                                                  partial, plan.outputs(), first);
    WEFT_CUDA_LAUNCHED("reduce columns");
    first += int64_t(walk.steps) * V;
  });
  if (!partial) return;
  first = 0;
  ForEachWalk(plan.kept, {}, [&](const Walk& walk) {
    LaunchEarly(DeviceOf(call), "reduce parts", &JoinParts<kind, Running<kind, T>, Out>,
                Blocks(walk.steps, kJoinOutputs), JoinThreads(plan.parts), walk, partial, int(plan.parts),
                plan.outputs(), first, call.out[0].as<Out>());
    first += walk.steps;
  });
}

// Returns whether every row of the input consists of whole, aligned vectors.
bool RowsAligned(const ReducePlan& plan, int64_t v) {
  if (plan.dim.step != 1 || plan.dim.length % v || !Aligned16(plan.dim.x)) return false;
  for (int d = 0; d < plan.kept.rank; d++)
    if (plan.kept.strides[size_t(d)][1] % v) return false;
  return true;
}

template <Kind kind, class T, int V, class Out>
void LaunchRows(const KernelCall& call, const ReducePlan& plan) {
  Out* y = call.out[0].as<Out>();
  ForEachWalk(plan.kept, {}, [&](const Walk& walk) {
    cudaStream_t stream = DeviceOf(call).stream();
    if (plan.dim.length / V >= kLongRow)
      ReduceRows<kind, T, kThreads, V, Out><<<walk.steps, kThreads, 0, stream>>>(walk, plan.dim, y);
    else
      ReduceRows<kind, T, kWarp, V, Out><<<Blocks(walk.steps, kDown), kThreads, 0, stream>>>(walk, plan.dim, y);
    WEFT_CUDA_LAUNCHED("reduce rows");
  });
}

template <Kind kind, class T, class Out = T>
void ReduceAs(const KernelCall& call) {
  ReducePlan plan(call);
  constexpr int V = kPack<T>;
  if (plan.columns) {
    bool vectors =
        Divisible(plan.kept, V) && plan.dim.step % V == 0 && Aligned16(plan.dim.x) && Aligned16(call.out[0].data);
    return vectors ? LaunchColumns<kind, T, V, Out>(call, plan, plan.kept)
                   : LaunchColumns<kind, T, 1, Out>(call, plan, plan.kept);
  }
  RowsAligned(plan, V) ? LaunchRows<kind, T, V, Out>(call, plan) : LaunchRows<kind, T, 1, Out>(call, plan);
}

template <Kind kind>
void Reduce(const KernelCall& call) {
  Dispatch(call.in[0].dtype, [&](auto zero) { ReduceAs<kind, decltype(zero)>(call); });
}
// The result may have the accumulate type.
void ReduceSum(const KernelCall& call) {
  if (call.out[0].dtype == call.in[0].dtype) return Reduce<Kind::kSum>(call);
  if (call.in[0].dtype == DType::kBF16)
    ReduceAs<Kind::kSum, BF16, float>(call);
  else
    ReduceAs<Kind::kSum, F16, float>(call);
}

}  // namespace

void AddFolds(KernelTable& table) {
  SetRun(table, Op::kReduceSum, &ReduceSum);
  SetRun(table, Op::kReduceMax, &Reduce<Kind::kMax>);
  SetRun(table, Op::kReduceMin, &Reduce<Kind::kMin>);
  SetRun(table, Op::kReduceProd, &Reduce<Kind::kProd>);
}

}  // namespace weft::cuda
