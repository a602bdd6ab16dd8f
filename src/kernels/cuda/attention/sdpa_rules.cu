#include "weft/kernels/cuda/attention/sdpa_rules.cuh"

#include "weft/core/base/rng.h"
#include "weft/core/ops/sdpa.h"
#include "weft/kernels/common/nest.h"
#include "weft/kernels/common/random_view.h"
#include "weft/kernels/cuda/plan/sdpa_plan.h"

namespace weft::cuda {
namespace {

// Positions beyond this change nothing, because kernels count rows in 32 bits. With it no sum of theirs overflows.
constexpr int64_t kFar = int64_t(1) << 60;

SdpaDropout DropoutOf(const KernelCall& call, size_t random) {
  const TensorView q = InWhole(call.in[0], 1, *call.attrs), &k = call.in[1];
  SdpaDropout drop;
  drop.step = call.in[random].as<const int64_t>(), drop.first_row = call.in[random + 1].as<const int64_t>();
  drop.key = uint64_t(call.attrs->Int("key"));
  drop.heads = q.dim(2).global, drop.queries = q.dim(1).global;
  drop.blocks = CeilDiv(k.dim(1).global, kDropoutWords);
  drop.first_b = q.dim(0).offset, drop.first_h = q.dim(2).offset;
  drop.first_i = q.dim(1).offset, drop.first_j = k.dim(1).offset;
  double p = call.attrs->Float("p");
  drop.threshold = DropoutThreshold(p), drop.kept = DropoutScale(p);
  return drop;
}

}  // namespace

ScoreOperand::ScoreOperand(const TensorView& view) : data(view.data) {
  auto stride = [&](int d) { return view.dim(d).global == 1 ? 0 : view.dim(d).stride; };
  b = stride(0), h = stride(1), t = stride(2);
}

SdpaRules::SdpaRules(const KernelCall& call) {
  const Attrs& attrs = *call.attrs;
  const TensorView &q = call.in[0], &k = call.in[1];
  queries = int(q.dim(1).extent), keys = int(k.dim(1).extent);
  shift = q.dim(1).offset - k.dim(1).offset + std::clamp(attrs.IntOr("causal_offset", 0), -kFar, kFar);
  left = std::min(attrs.IntOr("left", -1), 2 * kFar);
  right = attrs.Int("causal") ? 0 : std::min(attrs.IntOr("right", -1), 2 * kFar);
  if (attrs.Has("softcap")) softcap = attrs.Float("softcap");
  SdpaOperands at(attrs, IsSdpaGrad(call) ? 6 : 3);
  auto view = [&](int i) -> const TensorView& { return call.in[size_t(i)]; };
  if (at.mask >= 0) mask = ScoreOperand(view(at.mask));
  if (at.bias >= 0) bias = ScoreOperand(view(at.bias));
  if (at.sinks >= 0) sinks = view(at.sinks).data;
  if (at.offsets >= 0) offsets = view(at.offsets).as<const int64_t>();
  if (at.lengths >= 0) lengths = view(at.lengths).as<const int64_t>(), first_key = k.dim(1).offset;
  if (at.segments >= 0) {
    const TensorView &of_queries = view(at.segments), &of_keys = view(at.segments + 1);
    query_segments = of_queries.as<const int64_t>(), query_segments_step = of_queries.dim(0).stride;
    key_segments = of_keys.as<const int64_t>(), key_segments_step = of_keys.dim(0).stride;
  }
  if (at.random >= 0) dropout = DropoutOf(call, size_t(at.random));
}

}  // namespace weft::cuda
