#include "weft/kernels/cuda/plan/sdpa_sizes.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/kernels/common/nest.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {
namespace {

constexpr int64_t kLongest = 1 << 30;  // tokens; kernels count rows in 32 bits

constexpr int kMostQueries = 8;   // flash computes tiles of 64 queries or more
constexpr int kMostTiles = 1024;  // counters of CudaDevice; more tiles keep the GPU busy without a split
constexpr int kLeastKeys = 64;    // of a part

constexpr int64_t kSectionBytes = int64_t(32) << 20;  // of L2's 50 MiB
constexpr int kLeastItems = 4 * kProcessors;          // fewer leave multiprocessors idle at the end
constexpr int kFewKeys = 2048;  // of 128 columns: cuDNN's gradient takes 0.92 of the time for 1024, 1.10 for 4096
constexpr int kLeastHeads = kProcessors / 3;  // so that about three blocks of a head begin together

}  // namespace

SdpaOperand OperandOf(const TensorView& view) {
  return {view.data, view.dim(0).stride, view.dim(1).stride, view.dim(2).stride};
}

bool HasAlignedRows(const KernelCall& call) {
  auto aligned = [](const TensorView& view) {
    if (view.rank != 4) return true;  // lse
    for (int i = 0; i < 3; i++)
      if (view.dim(i).stride * int64_t(SizeOf(view.dtype)) % 16) return false;
    return reinterpret_cast<uintptr_t>(view.data) % 16 == 0;
  };
  bool grad = call.out.size() > 2;  // further operands and their gradients are read and written by elements
  return std::ranges::all_of(call.in.first(grad ? 6 : 3), aligned) &&
         std::ranges::all_of(call.out.first(grad ? 3 : 2), aligned);
}

SdpaSizes::SdpaSizes(const KernelCall& call) {
  const TensorView &q = call.in[0], &k = call.in[1];
  int64_t queries = q.dim(1).extent, keys = k.dim(1).extent;
  WEFT_CHECK(queries < kLongest && keys < kLongest,
             fmt::format("sdpa on CUDA: expected at most {} queries and keys, got {} and {}; shard the sequence",
                         kLongest - 1, queries, keys));
  B = int(q.dim(0).extent), T = int(queries), H = int(q.dim(2).extent), D = int(q.dim(3).extent);
  S = int(keys), G = int(k.dim(2).extent), E = int(call.in[2].dim(3).extent);
  group = int(q.dim(2).global / std::max<int64_t>(k.dim(2).global, 1));
  first_head = int(q.dim(2).offset), first_kv_head = int(k.dim(2).offset);
  int64_t offset = q.dim(1).offset - k.dim(1).offset + call.attrs->IntOr("causal_offset", 0);
  // Values beyond these bounds change nothing: no query sees a key, or every query sees all keys.
  shift = call.attrs->Int("causal") ? int(std::clamp<int64_t>(offset, -queries, keys)) : S;
  wide = size_t(D) * SizeOf(q.dtype) % 16 == 0 && HasAlignedRows(call);
  scale = call.attrs->Has("scale") ? call.attrs->Float("scale") : 0;
  if (scale == 0) scale = 1 / std::sqrt(double(q.dim(3).global));
}

// A sequence has about as many blocks as keep the GPU busy. The number of parts does not depend on B, so that a
// sequence gets the same bits in every batch.
SdpaSplit::SdpaSplit(const KernelCall& call) {
  SdpaSizes z(call);
  bool packs = size_t(z.D) * SizeOf(call.in[0].dtype) % 16 == 0;
  if (call.out.size() > 2 || z.T > kMostQueries || !packs || !HasAlignedRows(call)) return;
  rows = z.group == 1 ? 1 : z.group <= 4 ? 4 : 8;
  chunks = int(CeilDiv(z.group, rows));
  int64_t of_sequence = int64_t(z.T) * z.G * chunks, all = z.B * of_sequence;
  if (all == 0 || all > kMostTiles) return;
  tiles = int(all);
  splits = int(std::clamp<int64_t>(CeilDiv(kMostSplits, of_sequence), 1, CeilDiv(std::max(z.S, 1), kLeastKeys)));
  if (splits > 1) bytes = size_t(tiles) * size_t(splits) * size_t(rows) * size_t(z.D + 2) * sizeof(float);
  takes = true;
}

bool HasOptions(const KernelCall& call) {
  static constexpr AttrName<int64_t> kFlags[] = {"mask", "bias", "sinks", "offsets", "lengths", "segments"};
  const Attrs& attrs = *call.attrs;
  return std::ranges::any_of(kFlags, [&](AttrName<int64_t> flag) { return attrs.IntOr(flag, 0) != 0; }) ||
         attrs.IntOr("left", -1) >= 0 || attrs.IntOr("right", -1) >= 0 || attrs.Has("softcap") || attrs.Has("p");
}

bool FlashSumsQueries(const KernelCall& call) {
  return IsSdpaGrad(call) && IsHalf(call.in[0].dtype) && !IsDeterministic(call);
}

SdpaOnePass::SdpaOnePass(const KernelCall& call) {
  SdpaSizes z(call);
  bool empty = z.B == 0 || z.T == 0 || z.S == 0 || z.H == 0 || z.G == 0;
  bool half = IsSdpaGrad(call) && IsHalf(call.in[0].dtype);
  takes = half && !HasOptions(call) && (z.D == 64 || z.D == 128) && z.E == z.D && z.wide && !empty;
  if (!takes) return;
  ordered = IsDeterministic(call);
  leads = z.D == 64 || z.S > kFewKeys;
  counter = SdpaRowsBytes(call);
  Cut(call, z);
  Place(z);
}
// Whole chunks decide about parts, so that a smaller one needs no more workspace than was planned. In a section blocks
// of one head wait for each other, so with an order it has more heads.
void SdpaOnePass::Cut(const KernelCall& call, const SdpaSizes& z) {
  const TensorView& k = call.in[1];
  tiles = int(CeilDiv(z.S, kKeys));
  int64_t heads = int64_t(z.B) * z.G;
  int64_t of_chunk = k.dim(0).capacity * k.dim(2).capacity * CeilDiv(k.dim(1).capacity, int64_t(kKeys));
  if (ordered || of_chunk < kLeastItems) parts = std::max(z.group, 1);
  int64_t of_head = int64_t(z.T) * z.D * std::max(z.group / parts, 1) * 8;  // bytes of q, dout, and dq in f32
  int64_t wanted = std::max<int64_t>(kSectionBytes / of_head, ordered ? kLeastHeads : 1);
  section = int(std::min(wanted, heads * parts));
  items = int(heads * parts * tiles);
}
void SdpaOnePass::Place(const SdpaSizes& z) {
  size_t of_queries = size_t(z.B) * size_t(z.H) * size_t(z.PaddedT()) * size_t(z.D);
  size_t of_keys = parts > 1 ? size_t(z.B) * size_t(z.G) * size_t(tiles) * kKeys * size_t(z.D) : 0;
  if (ordered) of_keys *= size_t(parts);
  added = counter + 16;
  query_sums = added + (ordered ? CeilDiv(of_queries / (kBlock * kBlock) * sizeof(int), size_t(16)) * 16 : 0);
  key_sums = query_sums + of_queries * sizeof(float);
  value_sums = key_sums + of_keys * sizeof(float);
  bytes = value_sums + of_keys * sizeof(float);
  zeros = (ordered ? query_sums : bytes) - counter;
}

size_t SegmentRangeBytes(const KernelCall& call) {
  if (!call.attrs->IntOr("segments", 0)) return 0;
  SdpaSizes z(call);
  return size_t(z.B) * size_t(SegmentTiles(z.T) + SegmentTiles(z.S)) * sizeof(SegmentRange);
}

size_t SdpaRowsBytes(const KernelCall& grad_call) {
  SdpaSizes z(grad_call);
  return 2 * size_t(z.B) * size_t(z.H) * size_t(z.PaddedT()) * SizeOf(AccumulateType(grad_call.in[0].dtype));
}

}  // namespace weft::cuda
