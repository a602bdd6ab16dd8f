// Flash attention, forward, for bf16 and f16 on the tensor cores.
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_forward.cuh"
#include "weft/kernels/cuda/attention/sdpa_warpgroup.cuh"

namespace weft::cuda {
namespace {

// Calls fn with the shape for a head size. A build that is only for Hopper multiplies by warpgroups if tiles
// have whole panels.
template <HalfFloat T, class Fn>
decltype(auto) WithShape(int64_t D, Fn&& fn) {
  if (D <= 64) {
    if constexpr (kWarpgroups)
      return fn(ForwardShape<WarpgroupWarp<T>, 64, 64, 4, 2, 3>());
    else
      return fn(ForwardShape<TensorCoreWarp<T, 2>, 64, 64>());
  }
  if (D <= 96) return fn(ForwardShape<TensorCoreWarp<T, 2>, 96, 64>());
  if (D <= 128) {
    if constexpr (kWarpgroups)
      return fn(ForwardShape<WarpgroupWarp<T>, 128, 64, 4, 2, 2>());
    else
      return fn(ForwardShape<TensorCoreWarp<T, 2>, 128, 64>());
  }
  return fn(ForwardShape<TensorCoreWarp<T, 1>, 256, 32>());
}

template <HalfFloat T>
void ForwardAs(const KernelCall& call) {
  WithShape<T>(call.in[0].dim(3).extent, [&](auto shape) { LaunchForward<decltype(shape)>(call); });
}

}  // namespace

size_t SdpaHalfSharedBytes(int64_t D, bool options) {
  return WithShape<BF16>(D, [&](auto shape) { return options ? shape.kRuledBytes : shape.kSharedBytes; });
}
void SdpaHalf(const KernelCall& call) {
  call.in[0].dtype == DType::kBF16 ? ForwardAs<BF16>(call) : ForwardAs<F16>(call);
}

}  // namespace weft::cuda
