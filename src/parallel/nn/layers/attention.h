// MultiHeadAttention: PyTorch's nn.MultiheadAttention with batch_first=True, and the products that all layers with
// attention share.
//
//   nn::MultiHeadAttention attn{this, "self_attn", {.embed_dim = 64, .num_heads = 4}};
//   Var y = attn(x, x, x, {.key_padding_mask = IgnoreMask(padding), .is_causal = true});   // padding: bool [B, S]
//
// B batch, T queries, S keys, C width, H query heads, G key-value heads, D head size.
#pragma once
#include <cstdint>
#include <string>

#include "weft/core/ops/math.h"
#include "weft/core/ops/sdpa.h"
#include "weft/parallel/nn/layers/layers.h"

namespace weft::nn {

// The products around attention, as modules q, k, v and proj of their owner.
struct AttentionProducts {
  struct Sizes {
    int64_t width, key_width, value_width;  // of x, and of the sources of keys and values
    int64_t heads, kv_heads, head_size;
    bool bias;
  };
  struct Inits {
    ParameterInit q, k, v, proj;
  };
  AttentionProducts(Module* owner, const Sizes& sizes, const Inits& inits);

  Linear q;     // [B, T, C] -> [B, T, H, D]
  Linear k, v;  // [B, S, key_width] and [B, S, value_width] -> [B, S, G, D]
  Linear proj;  // [B, T, H, D] -> [B, T, C]
};

// Returns x plus what a part of a block makes of it: part(Var, Loc). The norm is of the part's input if it comes first,
// or else of the sum.
template <class Part>
Var Residual(Norm& norm, bool norm_first, Var x, Part&& part, Loc loc = Loc::current()) {
  if (norm_first) return Add({x, loc}, {part(norm(x, loc), loc), loc});
  return norm(Add({x, loc}, {part(x, loc), loc}), loc);
}

// Which keys a query attends to. A boolean mask is true where a key is ignored, the opposite of what Sdpa takes. A
// float mask is added to the scores, and may have a gradient. All that are given apply together.
//
// A query that may attend to no key gets zeros from the attention, where PyTorch gives NaN.
//
// No mask is spread over what it lacks: padding takes [B, S] elements whatever else is given. Only a float attn_bias
// and a float key_padding_bias together make a sum of [B, 1, T, S], or of [B, H, T, S].
struct AttentionMasks {
  IgnoreMask attn_mask{};         // bool [T, S], or [B H, T, S]
  Var attn_bias{};                // floats of the same shapes
  IgnoreMask key_padding_mask{};  // bool [B, S]
  Var key_padding_bias{};         // floats [B, S]
  bool is_causal = false;         // query i ignores key j if j > i. In PyTorch it is a hint that needs an attn_mask too
  Var query_segments{};  // i64 [B, T], and key_segments i64 [B, S]: a query ignores the keys of other segments,
  Var key_segments{};    // and -1 is no segment. PyTorch has no such mask. Packed rows (packing.h) need it.
};

// What PyTorch keeps in in_proj_weight, in_proj_bias and out_proj are the parameters of q, k, v and proj here.
// LoadTorchState and SaveTorchState (train/huggingface/torch_state.h) read and write them under PyTorch's names.
//
// Points of a sharding plan: "input" is the query, "memory" the key and the value, then "output". A key
// that is the query itself has no point of its own.
class MultiHeadAttention : public Module {
 public:
  struct Options {
    int64_t embed_dim, num_heads;
    double dropout = 0;  // of probabilities
    bool bias = true;
    int64_t kdim = 0, vdim = 0;  // widths of keys and values; 0: embed_dim
  };
  // Throws Error, with the caller's line, unless num_heads divides embed_dim. Weights are normal, with the variance of
  // Xavier's uniform values.
  MultiHeadAttention(Module* parent, const std::string& name, const Options& options, Loc loc = Loc::current());

  // query [B, T, embed_dim], key [B, S, kdim], value [B, S, vdim] -> [B, T, embed_dim]. Throws Error, with the caller's
  // line, for operands and masks that do not fit.
  Var operator()(Var query, Var key, Var value, const AttentionMasks& masks = {}, Loc loc = Loc::current());

  int64_t embed_dim() const { return options_.embed_dim; }
  int64_t num_heads() const { return options_.num_heads; }
  // Whether PyTorch stores the weights of q, k and v as one tensor: all have one width.
  bool packed() const { return options_.kdim == options_.embed_dim && options_.vdim == options_.embed_dim; }

 private:
  void Check(const Var& query, const Var& key, const Var& value, const AttentionMasks& masks, const Loc& loc) const;

  Options options_;  // kdim and vdim are set
  AttentionProducts products_;
};

}  // namespace weft::nn
