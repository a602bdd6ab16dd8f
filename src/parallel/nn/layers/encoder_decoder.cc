#include "weft/parallel/nn/layers/encoder_decoder.h"

#include <fmt/format.h>

#include <cmath>

#include "weft/core/ops/ops.h"

namespace weft::nn {
namespace {

using LayerOptions = TransformerLayerOptions;

MultiHeadAttention::Options AttentionOf(const LayerOptions& o) {
  return {.embed_dim = o.d_model, .num_heads = o.nhead, .dropout = o.dropout, .bias = o.bias};
}
// The variance of Xavier's uniform values, with which nn.Transformer begins.
ParameterInit Between(const LayerOptions& o) {
  return {ParameterInit::kNormal, std::sqrt(2.0 / double(o.d_model + o.dim_feedforward))};
}
Shape BiasOr(const LayerOptions& o, int64_t width) { return o.bias ? Shape{width} : Shape{}; }

const LayerOptions& Checked(const LayerOptions& o, const std::string& path, const Loc& loc) {
  WEFT_CHECK(o.dim_feedforward > 0,
             fmt::format("{} at {}: expected dim_feedforward > 0, got {}; PyTorch's default is 2048", path,
                         ToString(loc), o.dim_feedforward));
  return o;
}
int64_t CheckedLayers(int64_t num_layers, const std::string& path, const Loc& loc) {
  WEFT_CHECK(num_layers > 0,
             fmt::format("{} at {}: expected at least one layer, got {}; PyTorch's nn.Transformer has 6", path,
                         ToString(loc), num_layers));
  return num_layers;
}

template <class L>
std::vector<std::unique_ptr<L>> Layers(Module* parent, const LayerOptions& options, int64_t num_layers,
                                       const Loc& loc) {
  std::vector<std::unique_ptr<L>> layers;
  for (int64_t i = 0; i < CheckedLayers(num_layers, parent->path(), loc); i++)
    layers.push_back(std::make_unique<L>(parent, fmt::format("layers.{}", i), options, loc));
  return layers;
}
std::unique_ptr<Norm> FinalNorm(Module* parent, const LayerOptions& o, bool wanted) {
  if (!wanted) return nullptr;
  return std::make_unique<Norm>(parent, "norm", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias);
}

}  // namespace

FeedForward::FeedForward(Module* owner, const LayerOptions& o, Loc loc)
    : activation_(Checked(o, owner->path(), loc).activation),
      dropout_(o.dropout),
      linear1_(owner, "linear1", "btc,cf->btf", {o.d_model, o.dim_feedforward}, BiasOr(o, o.dim_feedforward),
               Between(o)),
      linear2_(owner, "linear2", "btf,fc->btc", {o.dim_feedforward, o.d_model}, BiasOr(o, o.d_model), Between(o)) {}

Var FeedForward::operator()(Var x, Loc loc) {
  Var hidden = Dropout(Activate(activation_, linear1_(x, loc)), dropout_, loc);  // [B, T, F]
  return Dropout(linear2_(hidden, loc), dropout_, loc);                          // [B, T, C]
}

TransformerEncoderLayer::TransformerEncoderLayer(Module* parent, const std::string& name, const LayerOptions& o,
                                                 Loc loc)
    : Module(parent, name),
      norm_first_(o.norm_first),
      dropout_(o.dropout),
      self_attn_(this, "self_attn", AttentionOf(o), loc),
      feed_forward_(this, o, loc),
      norm1_(this, "norm1", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias),
      norm2_(this, "norm2", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias) {}

Var TransformerEncoderLayer::operator()(Var src, const AttentionMasks& masks, Loc loc) {
  ModuleScope scope(name());
  auto attend = [&](Var y, Loc at) { return Dropout(self_attn_(y, y, y, masks, at), dropout_, at); };  // [B, S, C]
  Var x = Boundary(src, "input", loc);                                                                 // [B, S, C]
  x = Residual(norm1_, norm_first_, x, attend, loc);                                                   // [B, S, C]
  x = Residual(norm2_, norm_first_, x, feed_forward_, loc);                                            // [B, S, C]
  return Boundary(x, "output", loc);
}

TransformerDecoderLayer::TransformerDecoderLayer(Module* parent, const std::string& name, const LayerOptions& o,
                                                 Loc loc)
    : Module(parent, name),
      norm_first_(o.norm_first),
      dropout_(o.dropout),
      self_attn_(this, "self_attn", AttentionOf(o), loc),
      multihead_attn_(this, "multihead_attn", AttentionOf(o), loc),
      feed_forward_(this, o, loc),
      norm1_(this, "norm1", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias),
      norm2_(this, "norm2", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias),
      norm3_(this, "norm3", Norm::kLayer, o.d_model, o.layer_norm_eps, o.bias) {}

Var TransformerDecoderLayer::operator()(Var tgt, Var memory, const AttentionMasks& tgt_masks,
                                        const AttentionMasks& memory_masks, Loc loc) {
  ModuleScope scope(name());
  auto attend = [&](Var y, Loc at) { return Dropout(self_attn_(y, y, y, tgt_masks, at), dropout_, at); };  // [B, T, C]
  auto attend_to_memory = [&](Var y, Loc at) {
    return Dropout(multihead_attn_(y, memory, memory, memory_masks, at), dropout_, at);  // [B, T, C]
  };
  Var x = Boundary(tgt, "input", loc);                          // [B, T, C]
  x = Residual(norm1_, norm_first_, x, attend, loc);            // [B, T, C]
  x = Residual(norm2_, norm_first_, x, attend_to_memory, loc);  // [B, T, C]
  x = Residual(norm3_, norm_first_, x, feed_forward_, loc);     // [B, T, C]
  return Boundary(x, "output", loc);
}

TransformerEncoder::TransformerEncoder(Module* parent, const std::string& name, const LayerOptions& o,
                                       int64_t num_layers, bool final_norm, Loc loc)
    : Module(parent, name),
      layers_(Layers<TransformerEncoderLayer>(this, o, num_layers, loc)),
      norm_(FinalNorm(this, o, final_norm)) {}

Var TransformerEncoder::RunLayers(Var x, const AttentionMasks& masks, const Loc& loc) {
  x = Boundary(x, "input", loc);                            // [B, S, C]
  for (auto& layer : layers_) x = (*layer)(x, masks, loc);  // [B, S, C]
  return Boundary(norm_ ? (*norm_)(x) : x, "output", loc);  // [B, S, C]
}

Var TransformerEncoder::operator()(Var src, const AttentionMasks& masks, Loc loc) {
  ModuleScope scope(name());
  return RunLayers(src, masks, loc);  // [B, S, C]
}

Var TransformerEncoder::operator()(Var src, const Packing& packing, const AttentionMasks& masks, Loc loc) {
  bool padded = masks.attn_mask.defined() || masks.attn_bias.defined() || masks.key_padding_mask.defined() ||
                masks.key_padding_bias.defined() || masks.query_segments.defined() || masks.key_segments.defined();
  WEFT_CHECK(!padded, fmt::format("TransformerEncoder {} at {}: expected no mask but is_causal with a packing, which "
                                  "already leaves padding out; other masks need the call without a packing",
                                  path(), ToString(loc)));
  AttentionMasks of_rows{
      .is_causal = masks.is_causal, .query_segments = packing.segments(), .key_segments = packing.segments()};
  ModuleScope scope(name());
  return packing.Unpack(RunLayers(packing.Pack(src, loc), of_rows, loc), loc);  // [B, S, C]
}

TransformerDecoder::TransformerDecoder(Module* parent, const std::string& name, const LayerOptions& o,
                                       int64_t num_layers, bool final_norm, Loc loc)
    : Module(parent, name),
      layers_(Layers<TransformerDecoderLayer>(this, o, num_layers, loc)),
      norm_(FinalNorm(this, o, final_norm)) {}

Var TransformerDecoder::operator()(Var tgt, Var memory, const AttentionMasks& tgt_masks,
                                   const AttentionMasks& memory_masks, Loc loc) {
  ModuleScope scope(name());
  Var x = Boundary(tgt, "input", loc);                                                // [B, T, C]
  for (auto& layer : layers_) x = (*layer)(x, memory, tgt_masks, memory_masks, loc);  // [B, T, C]
  return Boundary(norm_ ? (*norm_)(x) : x, "output", loc);                            // [B, T, C]
}

Transformer::Transformer(Module* parent, const std::string& name, const LayerOptions& o, int64_t num_encoder_layers,
                         int64_t num_decoder_layers, Loc loc)
    : Module(parent, name),
      encoder_(this, "encoder", o, num_encoder_layers, /*final_norm=*/true, loc),
      decoder_(this, "decoder", o, num_decoder_layers, /*final_norm=*/true, loc) {}

Var Transformer::operator()(Var src, Var tgt, const TransformerMasks& masks, Loc loc) {
  ModuleScope scope(name());
  Var memory = encoder_(src, masks.src, loc);                  // [B, S, C]
  return decoder_(tgt, memory, masks.tgt, masks.memory, loc);  // [B, T, C]
}

Var Transformer::operator()(Var src, Var tgt, const Packing& src_packing, const TransformerMasks& masks, Loc loc) {
  ModuleScope scope(name());
  Var memory = encoder_(src, src_packing, masks.src, loc);     // [B, S, C]
  return decoder_(tgt, memory, masks.tgt, masks.memory, loc);  // [B, T, C]
}

}  // namespace weft::nn
