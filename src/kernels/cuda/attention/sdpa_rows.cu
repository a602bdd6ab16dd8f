// Values per query for the backward pass of attention, computed in one pass over out and dout with one warp per query;
// the gradient of sinks, which needs nothing else; and lse in the layout that cuDNN reads.
#include "weft/core/base/error.h"
#include "weft/core/ops/sdpa.h"
#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_rows.h"
#include "weft/kernels/cuda/attention/sdpa_rules.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"
#include "weft/kernels/cuda/loops/convert.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    SdpaRowsKernel(SdpaSizes z, SdpaOperand out, SdpaOperand lse, SdpaOperand dout, C lse_factor, SdpaRows<C> rows) {
  int lane = int(threadIdx.x) % kWarp;
  int64_t row = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / kWarp;  // in [B, PaddedT, H], the order of memory
  int h = int(row % z.H), i = int(row / z.H % z.PaddedT());
  int64_t b = row / z.H / z.PaddedT();
  if (b >= z.B) return;
  C delta = 0, value = C(INFINITY);
  if (i < z.T) {
    const T *o = out.At<T>(b, i, h), *d = dout.At<T>(b, i, h);  // [E]
    for (int c = lane; c < z.E; c += kWarp) delta += Widen(o[c]) * Widen(d[c]);
    delta = WarpReduce(delta, SumOf());
    value = *lse.At<C>(b, i, h);
    value = value == -C(INFINITY) ? -value : value * lse_factor;
  }
  if (lane > 0) return;
  int64_t at = rows.At(z, int(b), h) + i;
  rows.lse[at] = value;
  rows.delta[at] = delta;
}

// One block per head: a sink's probability is exp(sink - lse), and its value is 0.
template <class T, class C = Compute<T>>
__global__ void __launch_bounds__(kThreads)
    GradSinksKernel(SdpaSizes z, const T* sinks, SdpaRows<C> rows, C lse_factor, T* dsinks) {
  __shared__ C scratch[kThreads / kWarp];  // [warps]
  int h = int(blockIdx.x);
  C sink = Widen(sinks[h]), sum = 0;
  for (int b = 0; b < z.B; b++) {
    int64_t first = rows.At(z, b, h);
    C part = 0;  // of this sequence
    for (int i = int(threadIdx.x); i < z.T; i += kThreads)
      part -= ExpOf(sink - rows.lse[first + i] / lse_factor) * rows.delta[first + i];
    sum += part;
  }
  sum = BlockReduce(sum, SumOf(), scratch);
  if (threadIdx.x == 0) dsinks[h] = Narrow<T>(sum);
}

__global__ void __launch_bounds__(kThreads) PackLseKernel(SdpaSizes z, SdpaOperand lse, float* to) {
  int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x, row = at / z.T;  // in [B, H, T]
  if (row < int64_t(z.B) * z.H) to[at] = *lse.At<float>(row / z.H, at % z.T, row % z.H);
}

__global__ void __launch_bounds__(kThreads)
    WriteLengthsKernel(SdpaSizes z, const __grid_constant__ SdpaRules rules, int32_t* to) {
  int b = int(blockIdx.x * kThreads + threadIdx.x);
  if (b < z.B) to[b] = z.T, to[z.B + b] = rules.Length(b);
}

}  // namespace

template <class C>
SdpaRows<C> PrepareSdpaRows(const KernelCall& call, C lse_factor) {
  SdpaSizes z(call);
  int64_t count = int64_t(z.B) * z.H * z.PaddedT();
  SdpaRows<C> rows{static_cast<C*>(call.workspace), static_cast<C*>(call.workspace) + count};
  if (count == 0) return rows;
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<Compute<T>, C>) {
      SdpaRowsKernel<T><<<unsigned(CeilDiv(count * kWarp, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(
          z, OperandOf(call.in[3]), OperandOf(call.in[4]), OperandOf(call.in[5]), lse_factor, rows);
      WEFT_CUDA_LAUNCHED("sdpa_grad: rows");
    }
  });
  return rows;
}
template SdpaRows<float> PrepareSdpaRows(const KernelCall&, float);
template SdpaRows<double> PrepareSdpaRows(const KernelCall&, double);

template <class C>
void GradSdpaSinks(const KernelCall& call, const SdpaRows<C>& rows, C lse_factor) {
  SdpaOperands at(*call.attrs, 6);
  SdpaSizes z(call);
  if (at.sinks < 0 || z.H == 0) return;
  DispatchFloating(call.in[0].dtype, [&](auto zero) {
    using T = decltype(zero);
    if constexpr (std::is_same_v<Compute<T>, C>) {
      GradSinksKernel<T><<<unsigned(z.H), kThreads, 0, DeviceOf(call).stream()>>>(
          z, call.in[size_t(at.sinks)].as<const T>(), rows, lse_factor, call.out[3].as<T>());
      WEFT_CUDA_LAUNCHED("sdpa_grad: dsinks");
    }
  });
}
template void GradSdpaSinks(const KernelCall&, const SdpaRows<float>&, float);
template void GradSdpaSinks(const KernelCall&, const SdpaRows<double>&, double);

void WriteSdpaLengths(const KernelCall& call, int32_t* to) {
  SdpaSizes z(call);
  WriteLengthsKernel<<<unsigned(CeilDiv(z.B, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(z, SdpaRules(call),
                                                                                                 to);
  WEFT_CUDA_LAUNCHED("sdpa: lengths");
}

void PackSdpaLse(const KernelCall& call, float* to) {
  SdpaSizes z(call);
  int64_t count = int64_t(z.B) * z.H * z.T;
  if (count == 0) return;
  PackLseKernel<<<unsigned(CeilDiv(count, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(z, OperandOf(call.in[4]),
                                                                                              to);
  WEFT_CUDA_LAUNCHED("sdpa_grad: pack lse");
}

}  // namespace weft::cuda
