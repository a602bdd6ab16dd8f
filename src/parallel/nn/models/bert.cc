// BERT (Devlin et al. 2019): an encoder that predicts masked tokens from both sides. The embedding and the blocks are
// post-norm: a norm follows each sum. As in RoBERTa, a sequence is one segment and there is no second training task: of
// the embeddings of segments only the first is used.
#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/family/family.h"

namespace weft::models {
namespace {

ParameterInit Normal(const TransformerConfig& c) { return {ParameterInit::kNormal, c.init_std}; }

constexpr FamilyKey kTransform{
    .name = "transform", .help = "a dense layer, GELU and a norm before the head", .flag = true, .otherwise = 1},
    kTokenTypes{.name = "token_types",
                .help = "embeddings of segments; texts are of the first segment",
                .low = 1,
                .high = 65536,
                .otherwise = 2,
                .integer = true};
constexpr FamilyKey kKeys[] = {kTransform, kExactGelu, kTokenTypes};

class Bert : public Model {
 public:
  explicit Bert(const TransformerConfig& config)
      : config_(config),
        embed_(this, "embed", config.vocab, config.dim, config.init_std),
        positions_(this, "positions", {config.context, config.dim}, Normal(config), true),
        token_types_(this, "token_types", {int64_t(kTokenTypes.In(config)), config.dim}, Normal(config), true),
        norm_(this, "norm", config.norm, config.dim, config.norm_eps) {
    Check(config_);
    blocks_ = MakeBlocks(this, config_);
    if (kTransform.In(config_) != 0) {
      Shape square{config_.dim, config_.dim};
      dense_ = std::make_unique<nn::Linear>(this, "dense", "btc,cd->btd", square, Shape{config_.dim}, Normal(config_),
                                            nn::Linear::kOfHead);
      last_norm_ = std::make_unique<nn::Norm>(this, "last_norm", config_.norm, config_.dim, config_.norm_eps);
    }
    head_ = MakeBiasedHead(this, config_, embed_);
  }

  Var LogitsAt(Var tokens, Var places) override {
    Var rows = Merge(Hidden(tokens), 0);             // [B T, C]
    return (*head_)(weft::Embedding(rows, places));  // [R, N, V]
  }
  bool OnlyLooksUp(const Parameter& parameter) const override {
    return &parameter == &positions_ || &parameter == &token_types_ ||
           (&parameter == &embed_.weight() && !config_.tie_embeddings);
  }
  double AttentionFlops(int64_t tokens) const override { return weft::AttentionFlops(config_, tokens); }

 protected:
  Var Forward(Var tokens) override { return (*head_)(Hidden(tokens)); }  // [B, T, V]

 private:
  // [B, T] -> the input of the head, [B, T, C]
  Var Hidden(Var tokens) {
    Var first = Merge(Slice(token_types_.Use(), 0, 0, 1), 0);               // [C]
    Var x = norm_(Embedded(embed_, &positions_, tokens, config_) + first);  // [B, T, C]
    x = Dropout(x, config_.dropout);                                        // [B, T, C]
    for (auto& block : blocks_) x = (*block)(x);                            // [B, T, C]
    if (!dense_) return x;                                                  // [B, T, C]
    return (*last_norm_)(nn::Activate(config_.activation, (*dense_)(x)));   // [B, T, C]
  }

  TransformerConfig config_;
  nn::Embedding embed_;
  Parameter positions_;    // [context, C]
  Parameter token_types_;  // [segments, C]
  nn::Norm norm_;
  std::vector<std::unique_ptr<Layer>> blocks_;
  std::unique_ptr<nn::Linear> dense_;
  std::unique_ptr<nn::Norm> last_norm_;
  std::unique_ptr<Layer> head_;
};

std::unique_ptr<Layer> MakeBlock(Module* parent, const std::string& name, const TransformerConfig& config,
                                 int64_t layer) {
  return std::make_unique<PostBlock>(parent, name, config, layer);
}
std::unique_ptr<Model> MakeBert(const TransformerConfig& config) { return std::make_unique<Bert>(config); }

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kLayer;
  c.bias = true;
  c.activation = kExactGelu.In(c) != 0 ? nn::Activation::kExactGelu : nn::Activation::kGelu;
  c.gated_mlp = false;
  c.learned_positions = true;
  c.rope_theta = 0;
  c.causal = false;
  c.make_block = MakeBlock;
  c.make_model = MakeBert;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily bert;
const ModelFamily bert{.name = "bert",
                       .summary = "an encoder: both sides attended to, norms after sums, GELU, learned positions",
                       .configure = Configure,
                       .default_ffn = Ffn,
                       .tie_embeddings = true,
                       .objective = Objective::kMasked,
                       .keys = kKeys,
                       .plan = "bert"};

}  // namespace weft::models
