// GPT-NeoX (Black et al. 2022): attention and MLP read the same residual stream in parallel. Rotary positions on a part
// of each head.
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

class ParallelBlock : public Layer {
 public:
  ParallelBlock(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
      : Layer(parent, name),
        norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
        attn_(this, "attn", c, layer),
        norm2_(this, "norm2", c.norm, c.dim, c.norm_eps),
        mlp_(this, "mlp", c) {}

 protected:
  // Two statements, because in one expression the compiler would choose which half comes first in the graph.
  Var Forward(Var x) override {
    Var attended = attn_(norm1_(x));        // [B, T, C]
    return x + attended + mlp_(norm2_(x));  // [B, T, C]
  }

 private:
  nn::Norm norm1_;
  Attention attn_;
  nn::Norm norm2_;
  Mlp mlp_;
};

std::unique_ptr<Layer> MakeBlock(Module* parent, const std::string& name, const TransformerConfig& config,
                                 int64_t layer) {
  return std::make_unique<ParallelBlock>(parent, name, config, layer);
}

constexpr FamilyKey kRotaryShare{.name = "rotary_share",
                                 .help = "the first dims of each head that are rotated, as a share of all",
                                 .high = 1,
                                 .otherwise = 0.25,
                                 .earlier = 1},
    kParallel{.name = "parallel_residual",
              .help = "attention and MLP read the same stream; false: one after the other",
              .flag = true,
              .otherwise = 1},
    kAttentionBias{.name = "attention_bias", .help = "biases in attention", .flag = true, .otherwise = 1};
constexpr FamilyKey kKeys[] = {kRotaryShare, kExactGelu, kParallel, kAttentionBias};

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kLayer;
  c.bias = true;
  c.attention_bias = kAttentionBias.In(c) != 0;
  c.activation = kExactGelu.In(c) != 0 ? nn::Activation::kExactGelu : nn::Activation::kGelu;
  c.gated_mlp = false;
  c.learned_positions = false;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  c.rotary_share = kRotaryShare.In(c);
  if (kParallel.In(c) != 0) c.make_block = MakeBlock;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily neox;
const ModelFamily neox{
    .name = "neox",
    .summary = "parallel attention and MLP, LayerNorm, GELU, rotary positions on a part of each head",
    .configure = Configure,
    .default_ffn = Ffn,
    .tie_embeddings = false,
    .keys = kKeys};

}  // namespace weft::models
