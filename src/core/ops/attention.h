// Attention: scaled dot product with memory linear in sequence length, and rotary embedding.
#pragma once
#include <cstdint>
#include <numbers>

#include "weft/core/base/attrs.h"
#include "weft/core/base/error.h"

namespace weft {
class Var;

// Sdpa      (q [B, T, H, D], k [B, S, G, D], v [B, S, G, D]); causal (0 or 1), causal_offset, scale
//           -> out [B, T, H, D], lse [B, T, H] (accumulate type: log-sum-exp of the scaled scores).
//           H = G * group; query head h uses KV head h / group, by *global* head indices (H and G may be sharded
//           differently: use dim(2).offset and .global). Causal: query i sees keys j <= i + causal_offset, i and j
//           global indices (dim(1).offset). A row that sees no key gives out 0 and lse -inf, never NaN. The scores are
//           never materialised.
// SdpaGrad  (q, k, v, out, lse, dout); same attributes -> dq, dk, dv. dk and dv sum over the query heads held by this
//           rank.
// Rope      x [B, T, H, D]; theta, inverse (0 or 1), start: rotate-half rotary embedding (Su et al. 2021, Hugging
//           Face's layout): position = start + global index along dim 1; pairs (i, i + D/2); angle = position *
//           theta^(-2i/D). inverse rotates back. factor, low, high, context, all or none: RopeScaling.

struct SdpaOptions {
  bool causal = true;
  int64_t causal_offset = 0;  // keys before the first query, e.g. a KV cache; S - T aligns the mask to the bottom right
  double scale = 0;           // 0: 1 / sqrt(D)
};
Var Sdpa(Var q, Var k, Var v, const SdpaOptions& options, Loc loc = Loc::current());

// Llama 3.1's scaling to contexts longer than the one trained on (transformers' rope_type llama3): of a frequency that
// makes at most `low` turns in `context` tokens a part in `factor` is left, one of at least `high` turns stays as it
// is, and between the two the share that stays grows with the turns.
struct RopeScaling {
  double factor = 1;  // 1: none
  double low = 1, high = 4;
  int64_t context = 8192;
  bool operator==(const RopeScaling&) const = default;
  // Of radians a token.
  constexpr double operator()(double frequency) const {
    if (factor == 1) return frequency;
    double turns = frequency * double(context) / (2 * std::numbers::pi), share = (turns - low) / (high - low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return frequency * (share + (1 - share) / factor);
  }
};
RopeScaling RopeScalingOf(const Attrs& attrs);

struct RopeOptions {
  double theta = 10000;
  RopeScaling scaling = {};
};
Var Rope(Var x, const RopeOptions& options, Loc loc = Loc::current());

}  // namespace weft
