#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/attention/sdpa_flash_rules.cuh"
#include "weft/kernels/cuda/device/device.h"
#include "weft/kernels/cuda/loops/block.cuh"

namespace weft::cuda {
namespace {

constexpr int kThreads = 256;

// One warp per tile of tokens. `step` leads from one sequence to the next.
__global__ void __launch_bounds__(kThreads)
    SegmentRangesKernel(const int64_t* segments, int64_t step, int tokens, int64_t sequences, SegmentRange* to) {
  int64_t warp = (int64_t(blockIdx.x) * kThreads + threadIdx.x) / kWarp;
  int tiles = SegmentTiles(tokens);
  int64_t b = warp / tiles;
  if (b >= sequences) return;
  int begin = int(warp % tiles) * kSegmentTile, lane = int(threadIdx.x) % kWarp;
  SegmentRange range{INT64_MAX, INT64_MIN};
  for (int i = begin + lane; i < min(tokens, begin + kSegmentTile); i += kWarp) {
    int64_t segment = segments[b * step + i];
    range = {min(range.low, segment), max(range.high, segment)};
  }
  for (int other = kWarp / 2; other > 0; other /= 2) {
    range.low = min(range.low, __shfl_xor_sync(~0u, range.low, other));
    range.high = max(range.high, __shfl_xor_sync(~0u, range.high, other));
  }
  if (lane == 0) to[warp] = range;
}

void FindRanges(const KernelCall& call, const int64_t* segments, int64_t step, int tokens, int B, SegmentRange* to) {
  int64_t warps = int64_t(B) * SegmentTiles(tokens);
  if (warps == 0) return;
  SegmentRangesKernel<<<unsigned(CeilDiv(warps * kWarp, kThreads)), kThreads, 0, DeviceOf(call).stream()>>>(
      segments, step, tokens, B, to);
  WEFT_CUDA_LAUNCHED("sdpa: ranges of segments");
}

}  // namespace

FlashRules::FlashRules(const KernelCall& call, size_t used) : scores(call) {
  if (!scores.query_segments) return;
  SdpaSizes z(call);
  query_tiles = SegmentTiles(z.T), key_tiles = SegmentTiles(z.S);
  auto* ranges = reinterpret_cast<SegmentRange*>(static_cast<char*>(call.workspace) + used);
  of_queries = ranges, of_keys = ranges + int64_t(z.B) * query_tiles;
  FindRanges(call, scores.query_segments, scores.query_segments_step, z.T, z.B, ranges);
  FindRanges(call, scores.key_segments, scores.key_segments_step, z.S, z.B, ranges + int64_t(z.B) * query_tiles);
}

}  // namespace weft::cuda
