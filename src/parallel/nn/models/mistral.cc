// Mistral (Jiang et al. 2023): Llama with attention to a sliding window of tokens.
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

constexpr FamilyKey kKeys[] = {kWindow, kHeadDim};

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kRms;
  c.bias = false;
  c.activation = nn::Activation::kSilu;
  c.gated_mlp = true;
  c.learned_positions = false;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  c.window = int64_t(kWindow.In(c));
  c.head_size = int64_t(kHeadDim.In(c));
  return c;
}
// 3.5 dim, as in Mistral 7B, rounded up to a multiple of 64, so that it shards evenly.
int64_t Ffn(int64_t dim) { return (7 * dim / 2 + 63) / 64 * 64; }

}  // namespace

extern const ModelFamily mistral;
const ModelFamily mistral{.name = "mistral",
                          .summary = "Llama with attention to a sliding window",
                          .configure = Configure,
                          .default_ffn = Ffn,
                          .tie_embeddings = false,
                          .keys = kKeys};

}  // namespace weft::models
