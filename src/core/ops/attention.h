// Rotary embedding of queries and keys. sdpa.h has attention itself.
#pragma once
#include <cstdint>
#include <numbers>

#include "weft/core/base/attrs.h"
#include "weft/core/ir/node.h"

namespace weft {

// Rope      (x [B, T, H, D], and optionally offsets i64 [B]); theta, inverse (0 or 1), start -> [B, T, H, D].
//           Rotate-half rotary embedding (Su et al. 2021, Hugging Face's layout): position = start + offsets[b] +
//           global index along dim 1; pairs (i, i + R/2); angle = position * theta^(-2i/R). R is the attribute
//           `rotated`, or D if it is absent; dims from R on are copied. inverse = 1 rotates back. The attributes
//           factor, low, high and context hold a RopeScaling; all four are present or none. Offsets may be
//           negative.

// Llama 3.1's scaling to contexts longer than the one trained on (transformers' rope_type llama3). It depends on how
// many turns a frequency makes in `context` tokens:
// - at most `low` turns: the frequency is divided by `factor`;
// - at least `high` turns: it stays as it is;
// - between the two: a mix of both, linear in the number of turns.
struct RopeScaling {
  double factor = 1;  // 1: no scaling
  double low = 1, high = 4;
  int64_t context = 8192;
  bool operator==(const RopeScaling&) const = default;
  // Returns the scaled frequency. `frequency` is in radians per token.
  constexpr double operator()(double frequency) const {
    if (factor == 1) return frequency;
    double turns = frequency * double(context) / (2 * std::numbers::pi), share = (turns - low) / (high - low);
    share = share < 0 ? 0 : share > 1 ? 1 : share;
    return frequency * (share + (1 - share) / factor);
  }
};
RopeScaling RopeScalingOf(const Attrs& attrs);

// Returns how many leading dims of a head a Rope with these attributes rotates.
int64_t RotatedDims(const Attrs& attrs, int64_t head_size);

struct RopeOptions {
  double theta = 10000;
  RopeScaling scaling = {};
  int64_t rotated = 0;  // leading dims of each head that are rotated, an even number; 0: all
  Var offsets{};        // i64 [B]: added to the positions of each sequence
};
Var Rope(Var x, const RopeOptions& options, Loc loc = Loc::current());

}  // namespace weft
