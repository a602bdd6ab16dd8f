// Refusals of the Transformer API, of caches of keys and values, and of models.
#include "refusals/refusals.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/parallel/nn/kv_cache.h"
#include "weft/parallel/nn/layers/encoder_decoder.h"

namespace weft::test {
namespace {

const nn::TransformerLayerOptions kLayer{.d_model = 8, .nhead = 2, .dim_feedforward = 12};

// Attention of 8 features in 2 heads, among 3 queries and 4 keys in a batch of 2.
void Attend(const nn::AttentionMasks& masks, Loc loc = Loc::current()) {
  nn::MultiHeadAttention attn(nullptr, "self_attn", {.embed_dim = 8, .num_heads = 2});
  attn(F32({2, 3, 8}), F32({2, 4, 8}), F32({2, 4, 8}), masks, loc);
}
void Attend(Var query, Var key, Var value, Loc loc = Loc::current()) {
  nn::MultiHeadAttention attn(nullptr, "self_attn", {.embed_dim = 8, .num_heads = 2, .kdim = 6, .vdim = 5});
  attn(std::move(query), std::move(key), std::move(value), {}, loc);
}
void Encode(Var src, const nn::AttentionMasks& masks = {}, Loc loc = Loc::current()) {
  nn::TransformerEncoder(nullptr, "encoder", kLayer, 2)(std::move(src), masks, loc);
}
void Decode(Var tgt, Var memory, const nn::AttentionMasks& of_memory = {}, Loc loc = Loc::current()) {
  nn::TransformerDecoder(nullptr, "decoder", kLayer, 2)(std::move(tgt), std::move(memory), {}, of_memory, loc);
}

// The next logits of 5 tokens per row of a small model of the family, under a cache with room for `capacity` tokens.
void Next(const char* family, int64_t rows, int64_t capacity, Loc loc = Loc::current()) {
  TransformerConfig config =
      FindFamily(family)->configure({.layers = 1, .dim = 8, .ffn = 12, .vocab = 9, .context = 16});
  std::unique_ptr<Model> model = MakeModel(config);
  KvCache cache(I64({rows}), Sharding(1), capacity, loc);
  model->LastLogits(Leaf("tokens", DType::kI64, {2, 5}, {}, loc), I64({2}));
}

}  // namespace

// One line per call.
// clang-format off
std::vector<Refusal> LayerRefusals() {
  return {
      {"MultiHeadAttention attn", "heads that do not divide the width", {"embed_dim 10", "num_heads 4"}, [] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 10, .num_heads = 4}); }},
      {"MultiHeadAttention attn", "no heads", {"num_heads 0"}, [] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 8, .num_heads = 0}); }},
      {"MultiHeadAttention attn", "a negative width of keys", {"-1"}, [] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 8, .num_heads = 2, .kdim = -1}); }},
      {"MultiHeadAttention attn", "a dropout of all", {"1"}, [] { nn::MultiHeadAttention(nullptr, "attn", {.embed_dim = 8, .num_heads = 2, .dropout = 1}); }},
      {"MultiHeadAttention self_attn", "an empty query", {}, [] { Attend(Var(), F32({2, 4, 6}), F32({2, 4, 5})); }},
      {"MultiHeadAttention self_attn", "a query of another width", {"f32 [2, 3, 7]"}, [] { Attend(F32({2, 3, 7}), F32({2, 4, 6}), F32({2, 4, 5})); }},
      {"MultiHeadAttention self_attn", "a key of the query's width", {"f32 [2, 4, 8]"}, [] { Attend(F32({2, 3, 8}), F32({2, 4, 8}), F32({2, 4, 5})); }},
      {"MultiHeadAttention self_attn", "fewer values than keys", {"f32 [2, 3, 5]"}, [] { Attend(F32({2, 3, 8}), F32({2, 4, 6}), F32({2, 3, 5})); }},
      {"MultiHeadAttention self_attn", "no batch", {"f32 [3, 8]"}, [] { Attend(F32({3, 8}), F32({4, 6}), F32({4, 5})); }},
      {"MultiHeadAttention self_attn", "a mask with its dims swapped", {"bool [4, 3]"}, [] { Attend({.attn_mask = IgnoreMask(Bool({4, 3}))}); }},
      {"MultiHeadAttention self_attn", "a mask of floats", {"f32 [3, 4]"}, [] { Attend({.attn_mask = IgnoreMask(F32({3, 4}))}); }},
      {"MultiHeadAttention self_attn", "a boolean bias", {"bool [3, 4]"}, [] { Attend({.attn_bias = Bool({3, 4})}); }},
      {"MultiHeadAttention self_attn", "a bias per sequence", {"f32 [2, 3, 4]", "[4, 3, 4]"}, [] { Attend({.attn_bias = F32({2, 3, 4})}); }},
      {"MultiHeadAttention self_attn", "padding of the queries", {"bool [2, 3]"}, [] { Attend({.key_padding_mask = IgnoreMask(Bool({2, 3}))}); }},
      {"MultiHeadAttention self_attn", "padding in integers", {"i64 [2, 4]"}, [] { Attend({.key_padding_bias = I64({2, 4})}); }},
      {"MultiHeadAttention encoder.layers.0.self_attn", "heads that do not divide the width", {"embed_dim 10", "num_heads 4"}, [] { nn::Transformer(nullptr, "", {.d_model = 10, .nhead = 4}); }},
      {"layer", "no hidden width", {"0"}, [] { nn::TransformerEncoderLayer(nullptr, "layer", {.d_model = 8, .nhead = 2, .dim_feedforward = 0}); }},
      {"encoder", "no layers", {"0"}, [] { nn::TransformerEncoder(nullptr, "encoder", kLayer, 0); }},
      {"decoder", "less than no layers", {"-1"}, [] { nn::Transformer(nullptr, "", kLayer, 1, -1); }},
      {"encoder", "an empty source", {}, [] { Encode(Var()); }},
      {"MultiHeadAttention encoder.layers.0.self_attn", "a source of another width", {"f32 [2, 3, 6]"}, [] { Encode(F32({2, 3, 6})); }},
      {"MultiHeadAttention encoder.layers.0.self_attn", "padding of another length", {"bool [2, 4]"}, [] { Encode(F32({2, 3, 8}), {.key_padding_mask = IgnoreMask(Bool({2, 4}))}); }},
      {"MultiHeadAttention decoder.layers.0.multihead_attn", "an empty memory", {}, [] { Decode(F32({2, 3, 8}), Var()); }},
      {"MultiHeadAttention decoder.layers.0.multihead_attn", "a memory of another width", {"f32 [2, 5, 6]"}, [] { Decode(F32({2, 3, 8}), F32({2, 5, 6})); }},
      {"MultiHeadAttention decoder.layers.0.multihead_attn", "a memory of another batch", {"f32 [1, 5, 8]"}, [] { Decode(F32({2, 3, 8}), F32({1, 5, 8})); }},
      {"MultiHeadAttention decoder.layers.0.multihead_attn", "a memory mask of the targets", {"bool [3, 3]"}, [] { Decode(F32({2, 3, 8}), F32({2, 5, 8}), {.attn_mask = IgnoreMask(Bool({3, 3}))}); }},
      {"kv_cache", "lengths in 32 bits", {"i32 [2]"}, [] { KvCache(Leaf("past", DType::kI32, {2}), Sharding(1), 8); }},
      {"kv_cache", "one length for all rows", {"i64 []"}, [] { KvCache(I64({}), Sharding(1), 8); }},
      {"kv_cache", "more tokens than there is room for", {"at most 4", "i64 [2, 5]"}, [] { Next("llama", 2, 4); }},
      {"kv_cache", "another number of rows", {"3 rows"}, [] { Next("llama", 3, 8); }},
      {"last_logits", "a cache for an encoder", {"cache=false"}, [] { Next("bert", 2, 8); }},
  };
}
// clang-format on

}  // namespace weft::test
