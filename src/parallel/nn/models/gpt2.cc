// GPT-2 (Radford et al. 2019): LayerNorm, biases, GELU, learned positions.
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kLayer;
  c.bias = true;
  c.gated_mlp = false;
  c.learned_positions = true;
  c.rope_theta = 0;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily gpt2;
const ModelFamily gpt2{"gpt2", "LayerNorm, biases, GELU, learned positions", Configure, Ffn, true};

}  // namespace weft::models
