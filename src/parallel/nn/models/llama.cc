// Llama (Touvron et al. 2023): RMSNorm, no biases, SwiGLU, rotary positions.
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kRms;
  c.bias = false;
  c.activation = nn::Activation::kSilu;
  c.gated_mlp = true;
  c.learned_positions = false;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  return c;
}
// Two thirds of 4 dim, because gating adds a third matrix of this width. Rounded up to a multiple of 64, so that it
// shards evenly.
int64_t Ffn(int64_t dim) { return (8 * dim / 3 + 63) / 64 * 64; }

}  // namespace

extern const ModelFamily llama;
const ModelFamily llama{"llama", "RMSNorm, SwiGLU, rotary positions, no biases", Configure, Ffn, false};

}  // namespace weft::models
