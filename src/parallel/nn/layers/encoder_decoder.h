// PyTorch's nn.Transformer and its parts with batch_first=True: layers of an encoder and of a decoder that attends to
// it, stacks of them, and both together.
//
//   nn::Transformer model(nullptr, "", {.d_model = 64, .nhead = 4, .dim_feedforward = 256}, 2, 2);
//   Var y = model(source, target, {.tgt = {.is_causal = true}});   // [B, S, C], [B, T, C] -> [B, T, C]
//
// Parts have PyTorch's names, so that parameters have its paths, apart from those of attention (attention.h). The
// values are those of PyTorch's layers. Its fast path of inference, which computes no padding and sets the outputs of
// padding to 0, is a call with a Packing (packing.h).
//
// Constructors throw Error, with the caller's line, for sizes that do not fit together.
//
// B batch, S source tokens, T target tokens, C width (d_model), F hidden width (dim_feedforward).
#pragma once
#include <memory>
#include <string>
#include <vector>

#include "weft/parallel/nn/layers/attention.h"
#include "weft/parallel/nn/layers/packing.h"

namespace weft::nn {

struct TransformerLayerOptions {
  int64_t d_model = 512, nhead = 8, dim_feedforward = 2048;
  double dropout = 0.1;  // of probabilities, of hidden values, and of what each part adds to the residual stream
  Activation activation = Activation::kRelu;  // PyTorch's "gelu" is kExactGelu
  double layer_norm_eps = 1e-5;
  bool norm_first = false;  // norms before the parts of a layer, instead of after the sums
  bool bias = true;         // of products and norms
};

// The products linear1 and linear2 of a layer: [B, T, C] -> [B, T, F] -> [B, T, C].
class FeedForward {
 public:
  FeedForward(Module* owner, const TransformerLayerOptions& options, Loc loc = Loc::current());
  Var operator()(Var x, Loc loc = Loc::current());

 private:
  Activation activation_;
  double dropout_;
  Linear linear1_, linear2_;
};

// A layer of an encoder. Points of a sharding plan, here and in the layers and stacks below: "input" and "output".
class TransformerEncoderLayer : public Module {
 public:
  TransformerEncoderLayer(Module* parent, const std::string& name, const TransformerLayerOptions& options,
                          Loc loc = Loc::current());
  // src [B, S, C] -> [B, S, C].
  Var operator()(Var src, const AttentionMasks& masks = {}, Loc loc = Loc::current());

 private:
  bool norm_first_;
  double dropout_;
  MultiHeadAttention self_attn_;
  FeedForward feed_forward_;
  Norm norm1_, norm2_;
};

// A layer of a decoder: attention among the targets, attention to a memory, and the two products.
class TransformerDecoderLayer : public Module {
 public:
  TransformerDecoderLayer(Module* parent, const std::string& name, const TransformerLayerOptions& options,
                          Loc loc = Loc::current());
  // tgt [B, T, C], memory [B, S, C] -> [B, T, C]. `tgt_masks` say which targets a target attends to, `memory_masks`
  // which part of the memory.
  Var operator()(Var tgt, Var memory, const AttentionMasks& tgt_masks = {}, const AttentionMasks& memory_masks = {},
                 Loc loc = Loc::current());

 private:
  bool norm_first_;
  double dropout_;
  MultiHeadAttention self_attn_, multihead_attn_;
  FeedForward feed_forward_;
  Norm norm1_, norm2_, norm3_;
};

// A stack of layers, which may have a norm after the last one, as PyTorch's argument `norm`.
class TransformerEncoder : public Module {
 public:
  TransformerEncoder(Module* parent, const std::string& name, const TransformerLayerOptions& options,
                     int64_t num_layers, bool final_norm = false, Loc loc = Loc::current());
  // src [B, S, C] -> [B, S, C].
  Var operator()(Var src, const AttentionMasks& masks = {}, Loc loc = Loc::current());
  // The fast path: src [B, S, C] -> [B, S, C]. All layers run on packed rows [G, N, C], which the points of a sharding
  // plan see too. Real tokens get the values that they have with the packing's padding as key_padding_mask, to rounding
  // and apart from dropout's bits. Padding gets 0, and has no part in gradients. Throws Error for masks other than
  // is_causal, because they are of padded sequences.
  Var operator()(Var src, const Packing& packing, const AttentionMasks& masks = {}, Loc loc = Loc::current());

 private:
  Var RunLayers(Var x, const AttentionMasks& masks, const Loc& loc);  // [B, S, C] -> [B, S, C]

  std::vector<std::unique_ptr<TransformerEncoderLayer>> layers_;
  std::unique_ptr<Norm> norm_;  // null: none
};
class TransformerDecoder : public Module {
 public:
  TransformerDecoder(Module* parent, const std::string& name, const TransformerLayerOptions& options,
                     int64_t num_layers, bool final_norm = false, Loc loc = Loc::current());
  Var operator()(Var tgt, Var memory, const AttentionMasks& tgt_masks = {}, const AttentionMasks& memory_masks = {},
                 Loc loc = Loc::current());

 private:
  std::vector<std::unique_ptr<TransformerDecoderLayer>> layers_;
  std::unique_ptr<Norm> norm_;  // null: none
};

// Masks among sources, among targets, and of the sources that a target attends to.
struct TransformerMasks {
  AttentionMasks src{}, tgt{}, memory{};
};

// An encoder and a decoder, each with a final norm.
class Transformer : public Module {
 public:
  Transformer(Module* parent, const std::string& name, const TransformerLayerOptions& options = {},
              int64_t num_encoder_layers = 6, int64_t num_decoder_layers = 6, Loc loc = Loc::current());
  // src [B, S, C], tgt [B, T, C] -> [B, T, C].
  Var operator()(Var src, Var tgt, const TransformerMasks& masks = {}, Loc loc = Loc::current());
  // The encoder takes its fast path. masks.memory must ignore the padding of the sources, which the decoder sees.
  Var operator()(Var src, Var tgt, const Packing& src_packing, const TransformerMasks& masks = {},
                 Loc loc = Loc::current());

 private:
  TransformerEncoder encoder_;
  TransformerDecoder decoder_;
};

}  // namespace weft::nn
