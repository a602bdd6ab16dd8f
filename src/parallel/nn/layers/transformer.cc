#include "weft/parallel/nn/layers/transformer.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "weft/core/ir/checks.h"
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/kv_cache.h"

namespace weft {
namespace {
ParameterInit Normal(const TransformerConfig& c) { return {ParameterInit::kNormal, c.init_std}; }
ParameterInit Residual(const TransformerConfig& c) {
  return {ParameterInit::kNormal, c.init_std / std::sqrt(2.0 * double(c.layers))};
}
Shape BiasOr(const TransformerConfig& c, Shape shape) { return c.bias ? shape : Shape{}; }
// Returns the placement of the heads that a weight [C, G, D] makes, as dims [G, D].
Sharding HeadPlacement(const nn::Linear& linear) {
  Sharding used = ModelScope::Current().Used(linear.weight()), heads(used.num_axes());
  for (int axis = 0; axis < used.num_axes(); axis++)
    if (used[axis].kind == Placement::kShard && used[axis].dim == 1) heads.Set(axis, Shard(0));
  return heads;
}
}  // namespace

void Check(const TransformerConfig& c) {
  WEFT_CHECK(
      c.heads > 0 && (c.head_size > 0 || c.dim % c.heads == 0),
      fmt::format("model: expected a dim that is a multiple of heads, got dim {} and heads {}; change one of them, "
                  "or give a head_size",
                  c.dim, c.heads));
  WEFT_CHECK(
      c.kv_heads > 0 && c.heads % c.kv_heads == 0,
      fmt::format("model: expected heads that are a multiple of kv_heads, got heads {} and kv_heads {}; change one "
                  "of them",
                  c.heads, c.kv_heads));
  WEFT_CHECK(
      c.rope_theta == 0 || (c.rotated_dims() > 0 && c.rotated_dims() % 2 == 0),
      fmt::format("model: expected an even number of rotated dims of a head, got {} of {}; change rotary_share, or "
                  "the head size",
                  c.rotated_dims(), c.head_dim()));
}

double AttentionFlops(const TransformerConfig& c, int64_t tokens) {
  double seen = 0;  // over all layers
  for (int64_t i = 0; i < c.layers; i++) {
    int64_t window = c.WindowOf(i);
    seen += double(window ? std::min(window, tokens) : tokens);
  }
  return 12 * seen * double(c.heads * c.head_dim());
}

Attention::Attention(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
    : Layer(parent, name),
      config_(c),
      window_(c.WindowOf(layer)),
      products_(this,
                {.width = c.dim,
                 .key_width = c.dim,
                 .value_width = c.dim,
                 .heads = c.heads,
                 .kv_heads = c.kv_heads,
                 .head_size = c.head_dim(),
                 .bias = c.bias && c.attention_bias},
                {Normal(c), Normal(c), Normal(c), Residual(c)}) {}

Var Attention::Attend(Var x, Var memory, const Var& segments) {
  Var q = products_.q(x), k = products_.k(memory), v = products_.v(memory);  // [B, T, H, D], [B, S, G, D] twice
  KvCache* cache = config_.causal ? KvCache::Current() : nullptr;
  if (config_.rope_theta != 0) {
    RopeOptions rope{config_.rope_theta, config_.rope_scaling, config_.rotated_dims(), cache ? cache->past() : Var()};
    q = Rope(q, rope);  // [B, T, H, D]
    k = Rope(k, rope);  // [B, S, G, D]
  }
  SdpaOptions options{.causal = config_.causal};
  if (window_ > 0) options.left = window_ - 1;
  if (cache) {
    k = cache->Append(path() + ".k", k, HeadPlacement(products_.k));  // [B, S, G, D]
    v = cache->Append(path() + ".v", v, HeadPlacement(products_.v));  // [B, S, G, D]
    options.offsets = cache->past();
  }
  return Attended(q, k, v, options, segments);  // [B, T, C]
}

void Attention::Keep(const Var& memory) {
  KvCache& cache = *KvCache::Current();
  cache.Keep(path() + ".k", products_.k(memory), HeadPlacement(products_.k));  // [B, S, G, D]
  cache.Keep(path() + ".v", products_.v(memory), HeadPlacement(products_.v));  // [B, S, G, D]
}

Var Attention::AttendToKept(Var x, const Var& segments) {
  const KvCache& cache = *KvCache::Current();
  Shape shape{x.dim(0), segments.dim(1), config_.kv_heads, config_.head_dim()};
  Var q = products_.q(x);                                                           // [B, T, H, D]
  Var k = cache.Kept(path() + ".k", q.dtype(), shape, HeadPlacement(products_.k));  // [B, S, G, D]
  Var v = cache.Kept(path() + ".v", q.dtype(), shape, HeadPlacement(products_.v));  // [B, S, G, D]
  return Attended(q, k, v, {.causal = false}, segments);                            // [B, T, C]
}

Var Attention::Attended(const Var& q, const Var& k, const Var& v, SdpaOptions options, const Var& segments) {
  options.scale = config_.attention_scale;
  options.softcap = config_.attention_softcap;
  if (segments.defined()) {
    options.query_segments = Full(0, DType::kI64, {q.dim(0), q.dim(1)});  // [B, T]
    options.key_segments = segments;                                      // [B, S]
  }
  return Dropout(products_.proj(Sdpa(q, k, v, options)), config_.dropout);  // [B, T, C]
}

Mlp::Mlp(Module* parent, const std::string& name, const TransformerConfig& c)
    : Layer(parent, name),
      config_(c),
      up_(this, "up", "btc,cf->btf", {c.dim, c.ffn}, BiasOr(c, {c.ffn}), Normal(c)),
      gate_(c.gated_mlp
                ? std::make_unique<nn::Linear>(this, "gate", "btc,cf->btf", Shape{c.dim, c.ffn}, Shape{}, Normal(c))
                : nullptr),
      down_(this, "down", "btf,fc->btc", {c.ffn, c.dim}, BiasOr(c, {c.dim}), Residual(c)) {}

Var Mlp::Forward(Var x) {
  return Dropout(down_(Hidden(x)), config_.dropout);  // [B, T, C]
}

Var Mlp::Hidden(Var x) {
  if (!gate_) return nn::Activate(config_.activation, up_(x));
  if (config_.activation == nn::Activation::kSilu) return SwiGlu((*gate_)(x), up_(x));
  Var gate = nn::Activate(config_.activation, (*gate_)(x));  // [B, T, F]
  return gate * up_(x);
}

Block::Block(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
    : Layer(parent, name),
      norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
      attn_(this, "attn", c, layer),
      norm2_(this, "norm2", c.norm, c.dim, c.norm_eps),
      mlp_(this, "mlp", c) {}

Var Block::Forward(Var x) {
  x = nn::Residual(norm1_, true, x, attn_);    // [B, T, C]
  return nn::Residual(norm2_, true, x, mlp_);  // [B, T, C]
}

PostBlock::PostBlock(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
    : Layer(parent, name),
      attn_(this, "attn", c, layer),
      norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
      mlp_(this, "mlp", c),
      norm2_(this, "norm2", c.norm, c.dim, c.norm_eps) {}

Var PostBlock::Forward(Var x) {
  x = nn::Residual(norm1_, false, x, attn_);    // [B, T, C]
  return nn::Residual(norm2_, false, x, mlp_);  // [B, T, C]
}

namespace {
// The product with the embedding's table, plus a bias.
class BiasedHead : public TiedHead {
 public:
  BiasedHead(Module* parent, const std::string& name, const Parameter& table)
      : TiedHead(parent, name, table), bias_(this, "bias", {table.shape()[0]}, ParameterInit{}, false) {}

 protected:
  Var Forward(Var x) override { return TiedHead::Forward(x) + bias_.Use(call_site()); }  // [B, T, V]

 private:
  Parameter bias_;
};
}  // namespace

std::unique_ptr<Layer> MakeBiasedHead(Module* parent, const TransformerConfig& c, const nn::Embedding& embed) {
  if (c.tie_embeddings) return std::make_unique<BiasedHead>(parent, "head", embed.weight());
  return std::make_unique<nn::Linear>(parent, "head", "btc,vc->btv", Shape{c.vocab, c.dim}, Shape{c.vocab}, Normal(c),
                                      nn::Linear::kOfHead);
}

std::vector<std::unique_ptr<Layer>> MakeBlocks(Module* parent, const TransformerConfig& c) {
  std::vector<std::unique_ptr<Layer>> blocks;
  for (int64_t i = 0; i < c.layers; i++) {
    std::string name = fmt::format("blocks.{}", i);
    blocks.push_back(c.make_block ? c.make_block(parent, name, c, i) : std::make_unique<Block>(parent, name, c, i));
  }
  return blocks;
}

Transformer::Transformer(const TransformerConfig& config)
    : config_(config), embed_(this, "embed", config.vocab, config.dim, config.init_std) {
  Check(config_);
  if (config_.learned_positions)
    positions_ = std::make_unique<Parameter>(this, "positions", Shape{config_.context, config_.dim},
                                             ParameterInit{ParameterInit::kNormal, config_.init_std}, true);
  blocks_ = MakeBlocks(this, config_);
  norm_ = std::make_unique<nn::Norm>(this, "norm", config_.norm, config_.dim, config_.norm_eps);
  if (config_.tie_embeddings)
    head_ = std::make_unique<TiedHead>(this, "head", embed_.weight());
  else
    head_ = std::make_unique<nn::Linear>(this, "head", "btc,vc->btv", Shape{config_.vocab, config_.dim}, Shape{},
                                         Normal(config_), nn::Linear::kOfHead);
}

Var TiedHead::Forward(Var x) { return Einsum("btc,vc->btv", x, table_.Use()); }  // [B, T, V]

Var Embedded(nn::Embedding& embed, const Parameter* positions, Var tokens, const TransformerConfig& c) {
  int64_t length = tokens.dim(1);
  WEFT_CHECK(length <= c.context,
             fmt::format("model: expected at most the {} tokens of its context, got {} made at {}; "
                         "shorten them, or build it with a longer context",
                         c.context, ToString(tokens), ToString(tokens.node().loc)));
  if (KvCache* cache = KvCache::Current()) cache->Check(tokens);
  Var x = embed(tokens);                                // [B, T, C]
  if (c.embed_scale != 1) x = Scale(x, c.embed_scale);  // [B, T, C]
  if (!positions) return x;
  Var p = positions->Use();                                                                          // [context, C]
  if (KvCache* cache = KvCache::Current()) return x + weft::Embedding(p, cache->Positions(length));  // [B, T, C]
  return x + (length == c.context ? p : Slice(p, 0, 0, length));                                     // [B, T, C]
}

Var Transformer::Hidden(Var tokens) {
  Var x = Embedded(embed_, positions_.get(), tokens, config_);  // [B, T, C]
  x = Dropout(x, config_.dropout);                              // [B, T, C]
  for (auto& block : blocks_) x = (*block)(x);                  // [B, T, C]
  return (*norm_)(x);                                           // [B, T, C]
}

Var Transformer::Logits(Var hidden) {
  Var logits = (*head_)(hidden);  // [B, T, V]
  double cap = config_.logit_softcap;
  return cap == 0 ? logits : Scale(Tanh(Scale(logits, 1 / cap)), cap);  // [B, T, V]
}

Var Transformer::Forward(Var tokens) { return Logits(Hidden(tokens)); }  // [B, T, V]

Var Transformer::LogitsAt(Var tokens, Var places) {
  Var rows = Merge(Hidden(tokens), 0);           // [B T, C]
  return Logits(weft::Embedding(rows, places));  // [R, N, V]
}

Var Transformer::LastLogits(Var tokens, Var last) {
  Var hidden = Hidden(tokens);                                       // [B, T, C]
  if (tokens.dim(1) > 1) hidden = DynamicSlice(hidden, last, 1, 1);  // [B, 1, C]
  return Logits(hidden);                                             // [B, 1, V]
}

std::unique_ptr<Model> MakeModel(const TransformerConfig& c) {
  return c.make_model ? c.make_model(c) : std::make_unique<Transformer>(c);
}

}  // namespace weft
