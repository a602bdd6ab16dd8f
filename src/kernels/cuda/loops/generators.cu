// Full and Iota: tensors that depend only on their attributes and global indices.
#include "weft/core/ops/leaf.h"

#include "weft/kernels/cuda/families.h"
#include "weft/kernels/cuda/loops/copy.h"
#include "weft/kernels/cuda/loops/map.cuh"

namespace weft::cuda {
namespace {

template <class T>
T FromDouble(double value) {
  if constexpr (std::is_arithmetic_v<T>)
    return T(value);
  else
    return T(float(value));
}

void Full(const KernelCall& call) {
  Dispatch(call.out[0].dtype, [&](auto zero) {
    // The attribute is a double, so integers above 2^53 may be inexact in any case.
    auto value = FromDouble<decltype(zero)>(call.attrs->Float("value"));
    FillBox(call, call.out[0], &value);
  });
}

constexpr int kThreads = 256;

// Operands of the walk: 0 the element, 1 its index along dim.
template <class T>
__global__ void __launch_bounds__(kThreads) IotaKernel(const __grid_constant__ Walk walk, T* y) {
  uint32_t step = blockIdx.x * uint32_t(kThreads) + threadIdx.x;
  if (step >= walk.steps) return;
  Place at = walk.At(step);
  y[at.of[0]] = Narrow<T>(at.of[1]);
}

void Iota(const KernelCall& call) {
  const TensorView& out = call.out[0];
  int dim = int(call.attrs->Int("dim"));
  Nest nest(2);
  for (int d = 0; d < out.rank; d++) nest.Add(out.dim(d).extent, {out.dim(d).stride, d == dim});
  nest.Collapse();
  Offsets first{0, out.dim(dim).offset};
  Dispatch(out.dtype, [&](auto zero) {
    using T = decltype(zero);
    ForEachWalk(nest, first, [&](const Walk& walk) {
      IotaKernel<<<Blocks(walk.steps, kThreads), kThreads, 0, DeviceOf(call).stream()>>>(walk, out.as<T>());
      WEFT_CUDA_LAUNCHED("iota");
    });
  });
}

}  // namespace

void AddGenerators(KernelTable& table) {
  SetRun(table, Op::kFull, &Full);
  SetRun(table, Op::kIota, &Iota);
}

}  // namespace weft::cuda
