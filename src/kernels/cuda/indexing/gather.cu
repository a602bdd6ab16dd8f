// Gather and Scatter: one thread for each id.
#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/indexing/lines.cuh"
#include "weft/kernels/cuda/loops/copy.h"

namespace weft::cuda {
namespace {

template <class Bits>
__global__ void __launch_bounds__(kIndexThreads)
    GatherIds(const __grid_constant__ Walk walk, const LineIds ids, const Bits* x, Bits* y) {
  uint32_t step = blockIdx.x * kIndexThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  int64_t place = ids.PlaceAt(at.of[1]);
  y[at.of[2]] = place >= 0 ? x[at.of[0] + place * ids.full_step] : Bits(0);
}

void Gather(const KernelCall& call) {
  const TensorView &x = call.in[0], &index = call.in[1], &y = call.out[0];
  int dim = IndexedDim(call);
  LineIds ids(dim, x, index, y);
  DispatchBits(x.dtype, [&](auto zero) {
    using Bits = decltype(zero);
    ForEachWalk(OverIds(dim, x, index, y), {}, [&](const Walk& walk) {
      GatherIds<<<Blocks(walk.steps, kIndexThreads), kIndexThreads, 0, DeviceOf(call).stream()>>>(
          walk, ids, x.as<const Bits>(), y.as<Bits>());
      WEFT_CUDA_LAUNCHED("gather");
    });
  });
}

// Finds the last id of each element: last[element] becomes its number in its line, plus 1.
__global__ void __launch_bounds__(kIndexThreads)
    FindLast(const __grid_constant__ Walk walk, const LineIds ids, uint32_t* last) {
  uint32_t step = blockIdx.x * kIndexThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  if (int64_t place = ids.PlaceAt(at.of[1]); place >= 0)
    atomicMax(last + at.of[0] + place * ids.full_step, uint32_t(at.of[3] + 1));
}

template <class Bits>
__global__ void __launch_bounds__(kIndexThreads)
    StoreLast(const __grid_constant__ Walk walk, const LineIds ids, const uint32_t* last, const Bits* src, Bits* y) {
  uint32_t step = blockIdx.x * kIndexThreads + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  int64_t place = ids.PlaceAt(at.of[1]), to = at.of[0] + place * ids.full_step;
  if (place >= 0 && last[to] == uint32_t(at.of[3] + 1)) y[to] = src[at.of[2]];
}

// Only the last of equal ids stores its element. The largest number does not depend on the order of the atomics, so the
// result is the same in every run.
void Scatter(const KernelCall& call) {
  const TensorView &index = call.in[1], &src = call.in[2], &y = call.out[0];
  int dim = IndexedDim(call);
  if (y.data != call.in[0].data) CopyBox(call, y, call.in[0]);
  if (index.NumElements() == 0 || y.NumElements() == 0) return;
  CudaDevice& device = DeviceOf(call);
  device.Fill(call.workspace, 0, call.workspace_bytes);
  LineIds ids(dim, y, index, src);
  WEFT_CHECK(ids.length < UINT32_MAX, "scatter on CUDA: expected fewer than 2^32 ids along the dim");
  uint32_t* last = static_cast<uint32_t*>(call.workspace);
  Nest nest = OverIds(dim, y, index, src);
  ForEachWalk(nest, {}, [&](const Walk& walk) {
    FindLast<<<Blocks(walk.steps, kIndexThreads), kIndexThreads, 0, device.stream()>>>(walk, ids, last);
    WEFT_CUDA_LAUNCHED("scatter: last");
  });
  DispatchBits(y.dtype, [&](auto zero) {
    using Bits = decltype(zero);
    ForEachWalk(nest, {}, [&](const Walk& walk) {
      StoreLast<<<Blocks(walk.steps, kIndexThreads), kIndexThreads, 0, device.stream()>>>(
          walk, ids, last, src.as<const Bits>(), y.as<Bits>());
      WEFT_CUDA_LAUNCHED("scatter");
    });
  });
}

}  // namespace

void AddGather(KernelTable& table) {
  SetRun(table, Op::kGather, &Gather);
  SetRun(table, Op::kScatter, &Scatter);
  SetRun(table, Op::kScatterAdd, &ScatterAdd);
}

}  // namespace weft::cuda
