// Attention: scaled dot product with memory linear in sequence length, and rotary embedding.
#pragma once
#include "core/base/error.h"

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
//           theta^(-2i/D). inverse rotates back.
#define WEFT_ATTENTION_OPS(X) X(Sdpa, "sdpa") X(SdpaGrad, "sdpa_grad") X(Rope, "rope")

struct SdpaOptions {
  bool causal = true;
  int64_t causal_offset = 0;  // keys before the first query, e.g. a KV cache; S - T aligns the mask to the bottom right
  double scale = 0;           // 0: 1 / sqrt(D)
};
Var Sdpa(Var q, Var k, Var v, const SdpaOptions& options, Loc loc = Loc::current());
Var Rope(Var x, double theta, Loc loc = Loc::current());

}  // namespace weft
