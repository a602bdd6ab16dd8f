// Transformer: decoder-only language models (GPT-2, Llama, GPT-NeoX), and the layers that encoders also use.
//
// B batch, T tokens, C width, H query heads, G key-value heads, D head size, F hidden width, V vocabulary.
#pragma once
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "weft/core/ops/attention.h"
#include "weft/parallel/nn/layers/attention.h"
#include "weft/parallel/nn/model.h"

namespace weft {

struct TransformerConfig {
  int64_t layers = 2, heads = 4, kv_heads = 4, dim = 64, ffn = 256, vocab = 256, context = 64;
  int64_t head_size = 0;  // 0: dim / heads
  double dropout = 0;
  bool tie_embeddings = true;
  nn::Norm::Kind norm = nn::Norm::kLayer;
  double norm_eps = 1e-5;
  bool bias = true;            // of linear layers
  bool attention_bias = true;  // with `bias`, of those of attention too
  nn::Activation activation = nn::Activation::kGelu;
  bool gated_mlp = false;  // a third product, activated, gates the MLP's hidden values
  bool learned_positions = true;
  double rope_theta = 0;  // 0: no rotary embedding
  RopeScaling rope_scaling = {};
  double rotary_share = 1;            // of the dims of a head, the first of which are rotated
  bool causal = true;                 // a token attends only to itself and to earlier tokens
  int64_t window = 0;                 // of attention, in tokens, the attending one included; 0: all tokens
  int64_t window_pattern = 0;         // each layer of this number attends to all tokens in spite of `window`; 0: none
  double attention_scale = 0;         // of scores; 0: 1 / sqrt(head_dim)
  double attention_softcap = 0;       // scores s become c tanh(s / c); 0: they stay
  double logit_softcap = 0;           // likewise for logits
  double embed_scale = 1;             // of token embeddings
  double init_std = 0.02;             // projections into the residual stream use init_std / sqrt(2 layers), as in GPT-2
  std::map<std::string, double> own;  // values of the family's own keys (FamilyKey); true is 1
  // Creates the block of a layer, counted from 0. Null: Block, below.
  std::unique_ptr<Layer> (*make_block)(Module* parent, const std::string& name, const TransformerConfig& config,
                                       int64_t layer) = nullptr;
  // Creates the whole model. Null: Transformer, below.
  std::unique_ptr<Model> (*make_model)(const TransformerConfig& config) = nullptr;
  int64_t head_dim() const { return head_size ? head_size : dim / heads; }
  // Returns the number of tokens that a token of the layer attends to at most, itself included; 0: no limit.
  int64_t WindowOf(int64_t layer) const {
    return window_pattern > 0 && (layer + 1) % window_pattern == 0 ? 0 : window < context ? window : 0;
  }
  // Returns how many dims of a head are rotated. transformers rounds in the same way.
  int64_t rotated_dims() const { return int64_t(double(head_dim()) * rotary_share); }
};
void Check(const TransformerConfig& config);  // throws Error if sizes do not fit together
// Returns the FLOPs of one token's attention to `tokens` tokens, over all layers, forward and backward.
double AttentionFlops(const TransformerConfig& config, int64_t tokens);
// Returns the embeddings of tokens [B, T], plus those of their positions if `positions` is not null: [B, T, C]. Under a
// KvCache, positions begin after the tokens that a row has seen. Throws Error if T is larger than config.context.
Var Embedded(nn::Embedding& embed, const Parameter* positions, Var tokens, const TransformerConfig& config);

class Attention : public Layer {
 public:
  // `layer` counts from 0. The config must outlive this.
  Attention(Module* parent, const std::string& name, const TransformerConfig& config, int64_t layer);

 protected:
  Var Forward(Var x) override { return Attend(x, x); }  // [B, T, C] -> [B, T, C]
  // Queries of x [B, T, C] attend to keys and values of a memory [B, S, C]. Under a KvCache, causal attention also
  // attends to those of the tokens that a row has seen. If `segments` (i64 [B, S]) are given, keys with the segment -1
  // are ignored; the others must have 0.
  Var Attend(Var x, Var memory, const Var& segments = {});
  // The same in two programs, for attention without positions: Keep stores the keys and values of the memory in the
  // current KvCache, and AttendToKept attends to those of S tokens.
  void Keep(const Var& memory);
  Var AttendToKept(Var x, const Var& segments);

 private:
  Var Attended(const Var& q, const Var& k, const Var& v, SdpaOptions options, const Var& segments);

  const TransformerConfig& config_;
  int64_t window_;
  nn::AttentionProducts products_;
};

class Mlp : public Layer {
 public:
  Mlp(Module* parent, const std::string& name, const TransformerConfig& config);

 protected:
  Var Forward(Var x) override;

 private:
  Var Hidden(Var x);  // [B, T, C] -> [B, T, F]

  const TransformerConfig& config_;
  nn::Linear up_;
  std::unique_ptr<nn::Linear> gate_;
  nn::Linear down_;
};

class Block : public Layer {
 public:
  Block(Module* parent, const std::string& name, const TransformerConfig& config, int64_t layer);

 protected:
  Var Forward(Var x) override;

 private:
  nn::Norm norm1_;
  Attention attn_;
  nn::Norm norm2_;
  Mlp mlp_;
};

// A block whose norms follow the residual sums.
class PostBlock : public Layer {
 public:
  PostBlock(Module* parent, const std::string& name, const TransformerConfig& config, int64_t layer);

 protected:
  Var Forward(Var x) override;

 private:
  Attention attn_;
  nn::Norm norm1_;
  Mlp mlp_;
  nn::Norm norm2_;
};

// A head that uses the embedding's weight: [B, T, C] -> [B, T, V].
class TiedHead : public Layer {
 public:
  TiedHead(Module* parent, const std::string& name, const Parameter& table) : Layer(parent, name), table_(table) {}

 protected:
  Var Forward(Var x) override;

 private:
  const Parameter& table_;
};

// Creates a module "head" with a bias, tied to the embedding if config.tie_embeddings is set.
std::unique_ptr<Layer> MakeBiasedHead(Module* parent, const TransformerConfig& config, const nn::Embedding& embed);

// Creates the blocks blocks.0, blocks.1, ... of a model with config.make_block, or as Block if that is null.
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
  Var LastLogits(Var tokens, Var last) override;
  double AttentionFlops(int64_t tokens) const override { return weft::AttentionFlops(config_, tokens); }

 protected:
  Var Forward(Var tokens) override;  // [B, T] -> logits [B, T, V]

 private:
  Var Hidden(Var tokens);  // [B, T] -> the input of the head, [B, T, C]
  Var Logits(Var hidden);  // [B, T, C] -> [B, T, V]

  TransformerConfig config_;
  nn::Embedding embed_;
  std::unique_ptr<Parameter> positions_;  // [context, C]; null: no learned positions
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<nn::Norm> norm_;
  std::unique_ptr<Layer> head_;
};

// Creates the model that the config describes.
std::unique_ptr<Model> MakeModel(const TransformerConfig& config);

}  // namespace weft
