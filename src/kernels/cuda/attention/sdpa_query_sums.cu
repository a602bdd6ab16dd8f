#include "weft/kernels/cuda/attention/sdpa_query_sums.cuh"

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256, kAtOnce = 8;

// A thread rounds kAtOnce neighbours. The head size and the rows of dq are multiples of that.
template <HalfFloat T>
__global__ void __launch_bounds__(kThreads) RoundQueriesKernel(SdpaSizes z, QuerySums sums, SdpaOperand dq) {
  int64_t at = int64_t(blockIdx.x) * kThreads + threadIdx.x;
  int columns = z.D / kAtOnce, column = int(at % columns) * kAtOnce;
  int64_t row = at / columns;  // in [B, T, H], the order of memory
  int h = int(row % z.H), i = int(row / z.H % z.T);
  int64_t b = row / z.H / z.T;
  if (b >= z.B) return;
  const float4* from = reinterpret_cast<const float4*>(sums.At(z, int(b), h, i) + column);
  float4 low = from[0], high = from[1];
  float scale = float(z.scale);
  uint4 rounded{PackPair<T>(scale * low.x, scale * low.y), PackPair<T>(scale * low.z, scale * low.w),
                PackPair<T>(scale * high.x, scale * high.y), PackPair<T>(scale * high.z, scale * high.w)};
  *reinterpret_cast<uint4*>(dq.At<uint16_t>(b, i, h) + column) = rounded;
}

}  // namespace

QuerySums ClearQuerySums(const KernelCall& call) {
  QuerySums sums{reinterpret_cast<float*>(static_cast<char*>(call.workspace) + SdpaRowsBytes(call))};
  WEFT_CUDA(cudaMemsetAsync(sums.data, 0, QuerySumBytes(call), DeviceOf(call).stream()));
  return sums;
}

void RoundQuerySums(const KernelCall& call, const QuerySums& sums) {
  SdpaSizes z(call);
  int64_t count = int64_t(z.B) * z.T * z.H * (z.D / kAtOnce);
  if (count == 0) return;
  auto* kernel = call.in[0].dtype == DType::kBF16 ? &RoundQueriesKernel<BF16> : &RoundQueriesKernel<F16>;
  kernel<<<unsigned(CeilDiv(count, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(z, sums, OperandOf(call.out[0]));
  WEFT_CUDA_LAUNCHED("sdpa_grad: round dq");
}

}  // namespace weft::cuda
