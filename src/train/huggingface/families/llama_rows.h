// What the tables of models like Llama share.
#pragma once
#include "weft/train/huggingface/families/values.h"

namespace weft::hf {

// Weights are stored as in Linear: [out, in]. Rotary pairs are dims d and d + D/2 of a head, as in Weft.
inline constexpr HfRow kLlamaRows[] = {
    {"embed.weight", "vc", "model.embed_tokens.weight", "v,c"},
    {"blocks.*.norm1.weight", "c", "model.layers.*.input_layernorm.weight", "c"},
    {"blocks.*.attn.q.weight", "chd", "model.layers.*.self_attn.q_proj.weight", "hd,c"},
    {"blocks.*.attn.k.weight", "cgd", "model.layers.*.self_attn.k_proj.weight", "gd,c"},
    {"blocks.*.attn.v.weight", "cgd", "model.layers.*.self_attn.v_proj.weight", "gd,c"},
    {"blocks.*.attn.proj.weight", "hdc", "model.layers.*.self_attn.o_proj.weight", "c,hd"},
    {"blocks.*.norm2.weight", "c", "model.layers.*.post_attention_layernorm.weight", "c"},
    {"blocks.*.mlp.gate.weight", "cf", "model.layers.*.mlp.gate_proj.weight", "f,c"},
    {"blocks.*.mlp.up.weight", "cf", "model.layers.*.mlp.up_proj.weight", "f,c"},
    {"blocks.*.mlp.down.weight", "fc", "model.layers.*.mlp.down_proj.weight", "c,f"},
    {"norm.weight", "c", "model.norm.weight", "c"},
    {"head.weight", "vc", "lm_head.weight", "v,c"},
};
inline constexpr const char* kLlamaNoWeights[] = {"*.rotary_emb.inv_freq"};
inline constexpr HfNumber kLlamaSizes[] = {
    {.key = "vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "max_position_embeddings", .ours = "model.context", .value = Context, .free = true},
    {.key = "hidden_size", .ours = "model.dim", .value = Dim},
    {.key = "num_hidden_layers", .ours = "model.layers", .value = Layers},
    {.key = "intermediate_size", .ours = "model.ffn", .value = Ffn},
};

}  // namespace weft::hf
