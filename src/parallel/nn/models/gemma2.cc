// Gemma 2 (Gemma Team 2024): norms before and after attention and MLP, weights of norms around 1, a GELU-gated MLP,
// soft caps of scores and logits, embeddings times the square root of the width, and a sliding window in every other
// block.
#include <cmath>

#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

// Both halves have a norm before and after them.
class SandwichBlock : public Layer {
 public:
  SandwichBlock(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
      : Layer(parent, name),
        norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
        attn_(this, "attn", c, layer),
        post_norm1_(this, "post_norm1", c.norm, c.dim, c.norm_eps),
        norm2_(this, "norm2", c.norm, c.dim, c.norm_eps),
        mlp_(this, "mlp", c),
        post_norm2_(this, "post_norm2", c.norm, c.dim, c.norm_eps) {}

 protected:
  Var Forward(Var x) override {
    x = x + post_norm1_(attn_(norm1_(x)));    // [B, T, C]
    return x + post_norm2_(mlp_(norm2_(x)));  // [B, T, C]
  }

 private:
  nn::Norm norm1_;
  Attention attn_;
  nn::Norm post_norm1_, norm2_;
  Mlp mlp_;
  nn::Norm post_norm2_;
};

std::unique_ptr<Layer> MakeBlock(Module* parent, const std::string& name, const TransformerConfig& config,
                                 int64_t layer) {
  return std::make_unique<SandwichBlock>(parent, name, config, layer);
}

constexpr FamilyKey kPattern{.name = "window_pattern",
                             .help = "blocks whose number divides by it attend to all tokens before; 0: none does",
                             .high = 65536,
                             .otherwise = 2,
                             .integer = true},
    kScoreCap{.name = "attention_softcap",
              .help = "scores s of attention become c tanh(s / c); 0: they stay",
              .high = 1e6,
              .otherwise = 50},
    kLogitCap{.name = "logit_softcap", .help = "as attention_softcap, for logits", .high = 1e6, .otherwise = 30},
    kQueryScalar{.name = "query_scalar",
                 .help = "scores are divided by its square root; 0: head_dim",
                 .high = 1e6,
                 .otherwise = 0,
                 .integer = true};
constexpr FamilyKey kKeys[] = {kWindow, kPattern, kHeadDim, kQueryScalar, kScoreCap, kLogitCap};

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kRmsAround1;
  c.bias = false;
  c.activation = nn::Activation::kGelu;
  c.gated_mlp = true;
  c.learned_positions = false;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  c.window = int64_t(kWindow.In(c));
  c.window_pattern = int64_t(kPattern.In(c));
  c.head_size = int64_t(kHeadDim.In(c));
  double divisor = kQueryScalar.In(c);
  if (divisor > 0) c.attention_scale = 1 / std::sqrt(divisor);
  c.attention_softcap = kScoreCap.In(c);
  c.logit_softcap = kLogitCap.In(c);
  c.embed_scale = std::sqrt(double(c.dim));
  c.make_block = MakeBlock;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily gemma2;
const ModelFamily gemma2{
    .name = "gemma2",
    .summary = "RMSNorm on both sides, GELU-gated MLP, soft caps, a sliding window in every other block",
    .configure = Configure,
    .default_ffn = Ffn,
    .tie_embeddings = true,
    .keys = kKeys};

}  // namespace weft::models
