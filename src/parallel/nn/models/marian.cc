// Marian (Junczys-Dowmunt et al. 2018), Vaswani et al.'s Transformer of 2017: an encoder reads the source, a decoder
// writes the target and attends to both. Post-norm, fixed sinusoidal positions, one embedding for all.
//
// A row of tokens holds the source in its first S tokens and the decoder's input in the T others. The token with which
// the target begins also fills the source's part of the row. No token attends to this padding.
#include <fmt/format.h>

#include <cmath>

#include "weft/core/ops/ops.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/nn/kv_cache.h"

namespace weft::models {
namespace {

constexpr FamilyKey kSource{.name = "source_context",
                            .help = "tokens of a source; the others of model.context are the target's; 0: half of them",
                            .high = 1e9,
                            .integer = true},
    kDecoderLayers{.name = "decoder_layers",
                   .help = "blocks of the decoder; 0: as many as layers",
                   .high = 10'000,
                   .integer = true},
    kSwish{.name = "swish", .help = "SiLU instead of exact GELU in the MLP", .flag = true, .otherwise = 1},
    kScale{.name = "scale_embedding", .help = "embeddings times the square root of dim", .flag = true, .otherwise = 1};
constexpr FamilyKey kKeys[] = {kSource, kDecoderLayers, kSwish, kScale};

// The source as the decoder attends to it.
struct Memory {
  Var segments;  // i64 [B, S]: -1 is padding, 0 is not
  Var hidden;    // the encoder's output [B, S, C]; undefined: its keys and values are in the KvCache
};

// Attention among the tokens of the source.
class SourceAttention : public Attention {
 public:
  using Attention::Attention;
  Var operator()(Var x, const Var& segments, Loc loc = Loc::current()) {
    segments_ = segments;
    Var attended = Layer::operator()(std::move(x), loc);  // [B, S, C]
    segments_ = {};
    return attended;
  }

 protected:
  Var Forward(Var x) override { return Attend(x, x, segments_); }

 private:
  Var segments_;
};

class CrossAttention : public Attention {
 public:
  using Attention::Attention;
  Var operator()(Var x, const Memory& memory, Loc loc = Loc::current()) {
    memory_ = memory;
    if (memory.hidden.defined()) memory_.hidden = Boundary(memory.hidden, "memory", loc);  // [B, S, C]
    Var attended = Layer::operator()(std::move(x), loc);                                   // [B, T, C]
    memory_ = {};
    return attended;
  }
  void KeepMemory(const Var& hidden, Loc loc = Loc::current()) {
    ModuleScope scope(name());
    Keep(Boundary(hidden, "memory", loc));
  }

 protected:
  Var Forward(Var x) override {
    return memory_.hidden.defined() ? Attend(x, memory_.hidden, memory_.segments) : AttendToKept(x, memory_.segments);
  }

 private:
  Memory memory_;
};

// PostBlock whose attention ignores padding.
class EncoderBlock : public Module {
 public:
  EncoderBlock(Module* parent, const std::string& name, const TransformerConfig& c, int64_t layer)
      : Module(parent, name),
        attn_(this, "attn", c, layer),
        norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
        mlp_(this, "mlp", c),
        norm2_(this, "norm2", c.norm, c.dim, c.norm_eps) {}

  Var operator()(Var x, const Var& segments) {
    ModuleScope scope(name());
    auto attend = [&](Var y, Loc at) { return attn_(y, segments, at); };  // [B, S, C]
    x = nn::Residual(norm1_, false, x, attend);                           // [B, S, C]
    return nn::Residual(norm2_, false, x, mlp_);                          // [B, S, C]
  }

 private:
  SourceAttention attn_;
  nn::Norm norm1_;
  Mlp mlp_;
  nn::Norm norm2_;
};

// Like PostBlock, with attention to the encoder's output between the two halves.
class DecoderBlock : public Module {
 public:
  DecoderBlock(Module* parent, const std::string& name, const TransformerConfig& c, const TransformerConfig& cross,
               int64_t layer)
      : Module(parent, name),
        attn_(this, "attn", c, layer),
        norm1_(this, "norm1", c.norm, c.dim, c.norm_eps),
        cross_(this, "cross", cross, layer),
        norm2_(this, "norm2", c.norm, c.dim, c.norm_eps),
        mlp_(this, "mlp", c),
        norm3_(this, "norm3", c.norm, c.dim, c.norm_eps) {}

  Var operator()(Var x, const Memory& memory) {
    ModuleScope scope(name());
    auto attend_to_memory = [&](Var y, Loc at) { return cross_(y, memory, at); };  // [B, T, C]
    x = nn::Residual(norm1_, false, x, attn_);                                     // [B, T, C]
    x = nn::Residual(norm2_, false, x, attend_to_memory);                          // [B, T, C]
    return nn::Residual(norm3_, false, x, mlp_);                                   // [B, T, C]
  }
  void KeepMemory(const Var& hidden) {
    ModuleScope scope(name());
    cross_.KeepMemory(hidden);
  }

 private:
  Attention attn_;
  nn::Norm norm1_;
  CrossAttention cross_;
  nn::Norm norm2_;
  Mlp mlp_;
  nn::Norm norm3_;
};

// Returns the fixed embeddings of positions: sines of all frequencies, then their cosines. `positions` [..., C/2] has
// each position once per frequency; the result is [..., C].
Var Sinusoids(const Var& positions, DType dtype) {
  int last = positions.rank() - 1;
  double step = -std::log(10000.0) / double(positions.dim(last));
  Var pair = Cast(Iota(last, DType::kI64, positions.shape()), DType::kF64);    // [..., C/2]
  Var angle = Cast(positions, DType::kF64) * Exp(Scale(pair, step));           // [..., C/2]
  return Cast(Concat(std::vector<Var>{Sin(angle), Cos(angle)}, last), dtype);  // [..., C]
}
// Returns the positions of tokens from the first on, or after those that a row has seen.
Var FirstPositions(int64_t tokens, int64_t width) { return Iota(0, DType::kI64, {tokens, width / 2}); }  // [T, C/2]
Var NextPositions(int64_t tokens, int64_t width) {
  return Broadcast(KvCache::Current()->Positions(tokens), 2, width / 2);  // [B, T, C/2]
}

TransformerConfig Encoder(TransformerConfig c) {
  c.causal = false;
  return c;
}
TransformerConfig Decoder(TransformerConfig c) {
  if (double layers = kDecoderLayers.In(c); layers > 0) c.layers = int64_t(layers);
  return c;
}

class Marian : public Model {
 public:
  explicit Marian(const TransformerConfig& config)
      : config_(config),
        encoder_config_(Encoder(config)),
        decoder_config_(Decoder(config)),
        source_(kSource.In(config) > 0 ? int64_t(kSource.In(config)) : config.context / 2),
        embed_(this, "embed", config.vocab, config.dim, config.init_std) {
    Check(config_);
    WEFT_CHECK(source_ > 0 && source_ < config.context,
               fmt::format("expected a context with room for a source and a target, got {} tokens of {} for the source",
                           source_, config.context));
    WEFT_CHECK(config.dim % 2 == 0, fmt::format("expected an even dim for sines and cosines, got {}", config.dim));
    for (int64_t i = 0; i < encoder_config_.layers; i++)
      encoder_.push_back(std::make_unique<EncoderBlock>(this, fmt::format("encoder.{}", i), encoder_config_, i));
    for (int64_t i = 0; i < decoder_config_.layers; i++)
      decoder_.push_back(
          std::make_unique<DecoderBlock>(this, fmt::format("decoder.{}", i), decoder_config_, encoder_config_, i));
    head_ = MakeBiasedHead(this, config_, embed_);
  }

  Loss LossOf(Var tokens, Var targets, const CrossEntropyOptions& options) override {
    Var own = Slice(targets, 1, source_, targets.dim(1) - source_);  // [B, T]
    return LossOfLogits((*this)(tokens), own, options);
  }
  // Places before the target's give logits of the source, which mean nothing.
  Var LogitsAt(Var tokens, Var places) override {
    Memory memory = Encode(tokens);                                                   // hidden [B, S, C]
    Var all = Concat(std::vector<Var>{memory.hidden, DecodeRow(tokens, memory)}, 1);  // [B, S + T, C]
    return (*head_)(weft::Embedding(Merge(all, 0), places));                          // [R, N, V]
  }
  // Under a KvCache the tokens [B, T] are the next ones of the target.
  Var LastLogits(Var tokens, Var last) override {
    const KvCache* cache = KvCache::Current();
    if (!cache) return Model::LastLogits(tokens, last);                                         // [B, 1, V]
    Var segments = cache->Kept(kSegments, DType::kI64, {tokens.dim(0), source_}, Unsharded());  // [B, S]
    Var hidden = Decode(tokens, NextPositions(tokens.dim(1), config_.dim), {segments, {}});     // [B, T, C]
    if (tokens.dim(1) > 1) hidden = DynamicSlice(hidden, last, 1, 1);                           // [B, 1, C]
    return (*head_)(hidden);                                                                    // [B, 1, V]
  }
  void KeepSource(Var tokens) override {
    Memory memory = Encode(tokens);  // hidden [B, S, C]
    KvCache::Current()->Keep(kSegments, memory.segments, Unsharded());
    for (auto& block : decoder_) block->KeepMemory(memory.hidden);
  }
  bool OnlyLooksUp(const Parameter& parameter) const override {
    return &parameter == &embed_.weight() && !config_.tie_embeddings;
  }
  double AttentionFlops(int64_t tokens) const override {
    double source = double(source_), target = double(tokens - source_), width = 12 * double(config_.dim);
    double encoder = double(encoder_config_.layers) * source * source;
    double decoder = double(decoder_config_.layers) * target * (target + source);
    return width * (encoder + decoder) / double(tokens);  // per token of a row
  }

 protected:
  // [B, S + T] -> logits of the target [B, T, V]
  Var Forward(Var tokens) override { return (*head_)(DecodeRow(tokens, Encode(tokens))); }

 private:
  static constexpr const char* kSegments = "source.segments";
  static Sharding Unsharded() { return Sharding(ModelScope::Current().options().mesh.num_axes()); }

  Var Embed(Var tokens, const Var& positions) {
    Var x = embed_(tokens);                                                     // [B, T, C]
    if (kScale.In(config_) != 0) x = Scale(x, std::sqrt(double(config_.dim)));  // [B, T, C]
    return Dropout(x + Sinusoids(positions, x.dtype()), config_.dropout);       // [B, T, C]
  }
  // Returns which tokens of the sources are padding, i64 [B, S].
  Var SegmentsOf(const Var& tokens) const {
    Var source = Slice(tokens, 1, 0, source_);                                                            // [B, S]
    Var padding = Eq(source, Slice(tokens, 1, source_, 1));                                               // [B, S] bool
    return Select(padding, Full(-1, DType::kI64, source.shape()), Full(0, DType::kI64, source.shape()));  // [B, S]
  }
  Memory Encode(const Var& tokens) {
    Var segments = SegmentsOf(tokens);                                                  // [B, S]
    Var x = Embed(Slice(tokens, 1, 0, source_), FirstPositions(source_, config_.dim));  // [B, S, C]
    for (auto& block : encoder_) x = (*block)(x, segments);                             // [B, S, C]
    return {segments, x};
  }
  Var Decode(const Var& tokens, const Var& positions, const Memory& memory) {
    Var x = Embed(tokens, positions);                      // [B, T, C]
    for (auto& block : decoder_) x = (*block)(x, memory);  // [B, T, C]
    return x;
  }
  Var DecodeRow(const Var& tokens, const Memory& memory) {
    int64_t length = tokens.dim(1) - source_;
    return Decode(Slice(tokens, 1, source_, length), FirstPositions(length, config_.dim), memory);  // [B, T, C]
  }

  TransformerConfig config_, encoder_config_, decoder_config_;
  int64_t source_;
  nn::Embedding embed_;
  std::vector<std::unique_ptr<EncoderBlock>> encoder_;
  std::vector<std::unique_ptr<DecoderBlock>> decoder_;
  std::unique_ptr<Layer> head_;
};

std::unique_ptr<Model> MakeMarian(const TransformerConfig& config) { return std::make_unique<Marian>(config); }

TransformerConfig Configure(TransformerConfig c) {
  c.norm = nn::Norm::kLayer;
  c.bias = true;
  c.activation = kSwish.In(c) != 0 ? nn::Activation::kSilu : nn::Activation::kExactGelu;
  c.gated_mlp = false;
  c.learned_positions = false;
  c.rope_theta = 0;
  c.make_model = MakeMarian;
  return c;
}
int64_t Ffn(int64_t dim) { return 4 * dim; }

}  // namespace

extern const ModelFamily marian;
const ModelFamily marian{
    .name = "marian",
    .summary = "an encoder and a decoder that attends to it, norms after sums, sinusoidal positions",
    .configure = Configure,
    .default_ffn = Ffn,
    .tie_embeddings = true,
    .objective = Objective::kPairs,
    .keys = kKeys,
    .plan = "marian"};

}  // namespace weft::models
