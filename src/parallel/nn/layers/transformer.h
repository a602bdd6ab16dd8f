// Transformer: decoder-only language models of the GPT-2 and Llama families, and the layers that encoders share.
//
// B batch, T tokens, C width, H query heads, G key-value heads, D head size, F hidden width, V vocabulary.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/ops/attention.h"
#include "weft/parallel/nn/layers/layers.h"
#include "weft/parallel/nn/model.h"

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
  bool causal = true;                 // a token attends to none behind it
  double init_std = 0.02;             // projections into the residual stream: divided by sqrt(2 layers) (GPT-2)
  std::map<std::string, double> own;  // keys of the family's (FamilyKey); true is 1
  // A family with blocks of its own makes them here, for layers from 0; null: Block, below.
  std::unique_ptr<Layer> (*make_block)(Module* parent, const std::string& name, const TransformerConfig& config,
                                       int64_t layer) = nullptr;
  // A family of another shape makes the whole; null: Transformer, below.
  std::unique_ptr<Model> (*make_model)(const TransformerConfig& config) = nullptr;
  int64_t head_dim() const { return dim / heads; }
};
void Check(const TransformerConfig& config);  // throws Error for sizes that do not fit together
// Of a token's attention to `tokens`, forward and backward.
double AttentionFlops(const TransformerConfig& config, int64_t tokens);
// The embedding of tokens and positions: [B, T, C].
Var Embedded(nn::Embedding& embed, const Parameter* positions, Var tokens, const TransformerConfig& config);

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

// A head whose weight is the embedding's: [B, T, C] -> [B, T, V].
class TiedHead : public Layer {
 public:
  TiedHead(Module* parent, const std::string& name, const Parameter& table) : Layer(parent, name), table_(table) {}

 protected:
  Var Forward(Var x) override;

 private:
  const Parameter& table_;
};

// The first blocks.N ... of a model, of the kind that its config makes.
std::vector<std::unique_ptr<Layer>> MakeBlocks(Module* parent, const TransformerConfig& config);

class Transformer : public Model {
 public:
  explicit Transformer(const TransformerConfig& config);
  const TransformerConfig& config() const { return config_; }
  bool OnlyLooksUp(const Parameter& parameter) const override {
    bool head = config_.tie_embeddings && &parameter == &embed_.weight();
    return !head && (&parameter == &embed_.weight() || &parameter == positions_.get());
  }
  Var LogitsAt(Var tokens, Var places) override;
  double AttentionFlops(int64_t tokens) const override { return weft::AttentionFlops(config_, tokens); }

 protected:
  Var Forward(Var tokens) override;  // [B, T] -> logits [B, T, V]

 private:
  Var Hidden(Var tokens);  // [B, T] -> what the head reads, [B, T, C]

  TransformerConfig config_;
  nn::Embedding embed_;
  std::unique_ptr<Parameter> positions_;  // [context, C]; null: rotary
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<nn::Norm> norm_;
  std::unique_ptr<Layer> head_;
};

// The model that a config of a family describes.
std::unique_ptr<Model> MakeModel(const TransformerConfig& config);

}  // namespace weft
