// Flash attention for f32, with products by fused multiply-adds, which do not round their factors.
//
// Measured on an H200, causal, 16 x 1024 tokens, 12 heads of 64: 0.84 ms forward, 2.86 ms backward. That is 31 and 32
// TFLOP/s, counting only the work that is done.
#include "weft/kernels/cuda/attention/sdpa_backward.cuh"
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/attention/sdpa_fma.cuh"
#include "weft/kernels/cuda/attention/sdpa_forward.cuh"

namespace weft::cuda {
namespace {

using Two = FmaWarp<2>;

// Calls fn with the shapes for a head size. There is one stage, because up to a head size of 128 two blocks then fit in
// a multiprocessor and hide each other's copies. Up to 64, a block also fits GPUs with 99 KiB of shared memory per
// block.
template <class Fn>
decltype(auto) WithForward(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(ForwardShape<Two, 64, 64, 4, 1>());
  if (D <= 128) return fn(ForwardShape<Two, 128, 32, 4, 1>());
  return fn(ForwardShape<Two, 256, 32, 4, 1>());
}
template <class Fn>
decltype(auto) WithBackward(int64_t D, Fn&& fn) {
  if (D <= 64) return fn(GradKVShape<Two, 64, 4, 64, 64, 1>(), GradQShape<Two, 64, 64, 4, 1>());
  if (D <= 128) return fn(GradKVShape<Two, 128, 4, 32, 128, 1>(), GradQShape<Two, 128, 32, 4, 1>());
  return fn(GradKVShape<Two, 256, 4, 16, 128, 1>(), GradQShape<Two, 256, 16, 4, 1>());
}

}  // namespace

size_t SdpaF32SharedBytes(int64_t D, bool options) {
  return WithForward(D, [&](auto shape) { return options ? shape.kRuledBytes : shape.kSharedBytes; });
}
void SdpaF32(const KernelCall& call) {
  WithForward(call.in[0].dim(3).extent, [&](auto shape) { LaunchForward<decltype(shape)>(call); });
}

size_t SdpaGradF32SharedBytes(int64_t D, bool options) {
  return WithBackward(D, [&](auto kv, auto q) {
    return options ? std::max(kv.kRuledBytes, q.kRuledBytes) : std::max(kv.kSharedBytes, q.kSharedBytes);
  });
}
void SdpaGradF32(const KernelCall& call) {
  WithBackward(call.in[0].dim(3).extent, [&](auto kv, auto q) { LaunchBackward<decltype(kv), decltype(q)>(call); });
}

}  // namespace weft::cuda
