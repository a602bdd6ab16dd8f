// Transformer: decoder-only language models of the GPT-2 and Llama families.
//
// B batch, T tokens, C width, H query heads, G key-value heads, D head size, F hidden width, V vocabulary.
#pragma once
#include <memory>
#include <vector>

#include "weft/core/ops/attention.h"
#include "weft/core/ops/loss.h"
#include "weft/parallel/nn/layers/layers.h"

namespace weft {

struct TransformerConfig {
  int64_t layers = 2, heads = 4, kv_heads = 4, dim = 64, ffn = 256, vocab = 256, context = 64;
  double dropout = 0;
  bool tie_embeddings = true;
  nn::Norm::Kind norm = nn::Norm::kLayer;
  double norm_eps = 1e-5;
  bool bias = true;        // of products
  bool gated_mlp = false;  // SwiGLU instead of GELU
  bool learned_positions = true;
  double rope_theta = 0;  // 0: no rotary embedding
  RopeScaling rope_scaling = {};
  double init_std = 0.02;  // projections into the residual stream: divided by sqrt(2 layers) (GPT-2)
  // A family with blocks of its own makes them here; null: Block, below.
  std::unique_ptr<Layer> (*make_block)(Module* parent, const std::string& name,
                                       const TransformerConfig& config) = nullptr;
  int64_t head_dim() const { return dim / heads; }
};
void Check(const TransformerConfig& config);  // throws Error for sizes that do not fit together

class Attention : public Layer {
 public:
  Attention(Module* parent, const std::string& name, const TransformerConfig& config);

 protected:
  Var Forward(Var x) override;

 private:
  const TransformerConfig& config_;
  nn::Linear q_, k_, v_, proj_;
};

class Mlp : public Layer {
 public:
  Mlp(Module* parent, const std::string& name, const TransformerConfig& config);

 protected:
  Var Forward(Var x) override;

 private:
  const TransformerConfig& config_;
  nn::Linear up_;
  std::unique_ptr<nn::Linear> gate_;
  nn::Linear down_;
};

class Block : public Layer {
 public:
  Block(Module* parent, const std::string& name, const TransformerConfig& config);

 protected:
  Var Forward(Var x) override;

 private:
  nn::Norm norm1_;
  Attention attn_;
  nn::Norm norm2_;
  Mlp mlp_;
};

// Sum of the losses of all targets that count, and their number: divided once, by the count of the global batch.
struct Loss {
  Var sum, count;
};

class Transformer : public Layer {
 public:
  explicit Transformer(const TransformerConfig& config);
  const TransformerConfig& config() const { return config_; }
  // Whether the parameter is a table of which tokens read rows, and nothing more.
  bool OnlyLooksUp(const Parameter& parameter) const {
    bool head = config_.tie_embeddings && &parameter == &embed_.weight();
    return !head && (&parameter == &embed_.weight() || &parameter == positions_.get());
  }
  // targets [B, T]; ignored ones (CrossEntropyOptions) neither add to the sum nor to the count.
  Loss LossOf(Var tokens, Var targets, const CrossEntropyOptions& options = {});
  // The logits of some tokens alone: `places` [R, N] are indices into the B x T of them. [R, N, V]
  Var LogitsAt(Var tokens, Var places);

 protected:
  Var Forward(Var tokens) override;  // [B, T] -> logits [B, T, V]

 private:
  Var Hidden(Var tokens);  // [B, T] -> what the head reads, [B, T, C]
  // A head whose weight is the embedding's.
  class TiedHead : public Layer {
   public:
    TiedHead(Module* parent, const std::string& name, const Parameter& table) : Layer(parent, name), table_(table) {}

   protected:
    Var Forward(Var x) override;

   private:
    const Parameter& table_;
  };

  TransformerConfig config_;
  nn::Embedding embed_;
  std::unique_ptr<Parameter> positions_;  // [context, C]; null: rotary
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<nn::Norm> norm_;
  std::unique_ptr<Layer> head_;
};

}  // namespace weft
