// GPT-NeoX (Black et al. 2022): attention and MLP read the same residual stream in parallel. Rotary positions.
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

class ParallelBlock : public Layer {
 public:
  ParallelBlock(Module* parent, const std::string& name, const TransformerConfig& c)
      : Layer(parent, name),
        norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
        attn_(this, "attn", c),
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
                                 int64_t /*layer*/) {
  return std::make_unique<ParallelBlock>(parent, name, config);
}

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kLayer;
  c.bias = true;
  c.gated_mlp = false;
  c.learned_positions = false;
  if (c.rope_theta == 0) c.rope_theta = 10000;
  c.make_block = MakeBlock;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily neox;
const ModelFamily neox{"neox", "parallel attention and MLP, LayerNorm, GELU, rotary positions", Configure, Ffn, false};

}  // namespace weft::models
