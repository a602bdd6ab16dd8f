// Flash attention, backward, for bf16 and f16 on the tensor cores.
#include "weft/kernels/cuda/attention/sdpa_backward.cuh"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_warpgroup.cuh"

namespace weft::cuda {
namespace {

// Calls fn with the shapes for a head size.
template <HalfFloat T, class Fn>
decltype(auto) WithShapes(int64_t D, Fn&& fn) {
  using One = TensorCoreWarp<T, 1>;
  using Two = TensorCoreWarp<T, 2>;
  using Group = WarpgroupWarp<T>;
  if (D <= 64) {
    if constexpr (kWarpgroups)
      return fn(GradKVShape<Group, 64, 8, 64>(), GradQShape<Group, 64, 64, 8>());
    else
      return fn(GradKVShape<Two, 64, 4, 32>(), GradQShape<Two, 64, 64>());
  }
  if (D <= 96) return fn(GradKVShape<One, 96, 8, 64>(), GradQShape<Two, 96, 32>());
  if (D <= 128) {
    if constexpr (kWarpgroups)
      return fn(GradKVShape<Group, 128, 8, 64>(), GradQShape<Group, 128, 64, 8>());
    else
      return fn(GradKVShape<One, 128, 8, 64>(), GradQShape<Two, 128, 32>());
  }
  return fn(GradKVShape<One, 256, 4, 32, 128>(), GradQShape<One, 256, 32>());
}

template <HalfFloat T>
void GradAs(const KernelCall& call) {
  WithShapes<T>(call.in[0].dim(3).extent, [&](auto kv, auto q) { LaunchBackward<decltype(kv), decltype(q)>(call); });
}

}  // namespace

size_t SdpaGradHalfSharedBytes(int64_t D, bool options) {
  return WithShapes<BF16>(D, [&](auto kv, auto q) {
    size_t with_sums = QuerySums::Adder<decltype(kv)>::kBytes;
    return options ? std::max(kv.kRuledBytes + with_sums, q.kRuledBytes)
                   : std::max(kv.kSharedBytes + with_sums, q.kSharedBytes);
  });
}
void SdpaGradHalf(const KernelCall& call) {
  if (RunsInOnePass(call)) return GradSdpaInOnePass(call);
  call.in[0].dtype == DType::kBF16 ? GradAs<BF16>(call) : GradAs<F16>(call);
}

}  // namespace weft::cuda
