// transformers' GPTNeoXForCausalLM (GPT-NeoX-20B, Pythia).
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Linear: [out, in]. q, k and v of a head follow each other in the rows of one matrix. There
// are as many key and value heads as query heads.
constexpr HfRow kRows[] = {
    {"embed.weight", "vc", "gpt_neox.embed_in.weight", "v,c"},
    {"blocks.*.norm1.weight", "c", "gpt_neox.layers.*.input_layernorm.weight", "c"},
    {"blocks.*.norm1.bias", "c", "gpt_neox.layers.*.input_layernorm.bias", "c"},
    {"blocks.*.attn.q.weight", "chd", "gpt_neox.layers.*.attention.query_key_value.weight", "hpd,c", 0, 3},
    {"blocks.*.attn.q.bias", "hd", "gpt_neox.layers.*.attention.query_key_value.bias", "hpd", 0, 3},
    {"blocks.*.attn.k.weight", "cgd", "gpt_neox.layers.*.attention.query_key_value.weight", "hpd,c", 1, 3},
    {"blocks.*.attn.k.bias", "gd", "gpt_neox.layers.*.attention.query_key_value.bias", "hpd", 1, 3},
    {"blocks.*.attn.v.weight", "cgd", "gpt_neox.layers.*.attention.query_key_value.weight", "hpd,c", 2, 3},
    {"blocks.*.attn.v.bias", "gd", "gpt_neox.layers.*.attention.query_key_value.bias", "hpd", 2, 3},
    {"blocks.*.attn.proj.weight", "hdc", "gpt_neox.layers.*.attention.dense.weight", "c,hd"},
    {"blocks.*.attn.proj.bias", "c", "gpt_neox.layers.*.attention.dense.bias", "c"},
    {"blocks.*.norm2.weight", "c", "gpt_neox.layers.*.post_attention_layernorm.weight", "c"},
    {"blocks.*.norm2.bias", "c", "gpt_neox.layers.*.post_attention_layernorm.bias", "c"},
    {"blocks.*.mlp.up.weight", "cf", "gpt_neox.layers.*.mlp.dense_h_to_4h.weight", "f,c"},
    {"blocks.*.mlp.up.bias", "f", "gpt_neox.layers.*.mlp.dense_h_to_4h.bias", "f"},
    {"blocks.*.mlp.down.weight", "fc", "gpt_neox.layers.*.mlp.dense_4h_to_h.weight", "c,f"},
    {"blocks.*.mlp.down.bias", "c", "gpt_neox.layers.*.mlp.dense_4h_to_h.bias", "c"},
    {"norm.weight", "c", "gpt_neox.final_layer_norm.weight", "c"},
    {"norm.bias", "c", "gpt_neox.final_layer_norm.bias", "c"},
    {"head.weight", "vc", "embed_out.weight", "v,c"},
};
constexpr const char* kNoWeights[] = {"*.attention.bias", "*.attention.masked_bias", "*.rotary_emb.inv_freq"};
constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<64>},
    {.key = "layer_norm_eps",
     .ours = "model.norm_eps",
     .value = NormEps,
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 1e-5; }},
    {.key = "rotary_emb_base",
     .ours = "model.rope_theta",
     .value = RopeTheta,
     .kind = HfNumber::kReal,
     .absent = Always<10000>},
    {.key = "rotary_pct",
     .ours = "model.rotary_share",
     .value = [](const ModelConfig& m) { return m.own.at("rotary_share"); },
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 0.25; }},
    {.key = "use_parallel_residual",
     .ours = "model.parallel_residual",
     .value = [](const ModelConfig& m) { return m.own.at("parallel_residual"); },
     .kind = HfNumber::kFlag,
     .absent = Always<1>},
    {.key = "attention_bias",
     .ours = "model.attention_bias",
     .value = [](const ModelConfig& m) { return m.own.at("attention_bias"); },
     .kind = HfNumber::kFlag,
     .absent = Always<1>},
    kRopeFactor,
    kRopeLow,
    kRopeHigh,
    kRopeContext,
};
constexpr HfNumber kSizes[] = {
    {.key = "vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "max_position_embeddings", .ours = "model.context", .value = Context, .free = true},
    {.key = "hidden_size", .ours = "model.dim", .value = Dim},
    {.key = "num_hidden_layers", .ours = "model.layers", .value = Layers},
    {.key = "intermediate_size", .ours = "model.ffn", .value = Ffn},
};
constexpr HfKey kKeys[] = {{"attention_dropout", kDropout}, {"hidden_dropout", kDropout}};
// Files that transformers 5 writes have the new names, in rope_parameters.
constexpr HfAlias kAliases[] = {{"rope_theta", "rotary_emb_base"}, {"partial_rotary_factor", "rotary_pct"}};
// gelu_fast is GELU's tanh form with the constant sqrt(2/pi) written as 0.7978845608.
constexpr const char *kType[] = {"gpt_neox"}, *kTanh[] = {"gelu_new", "gelu_pytorch_tanh", "gelu_fast"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType},
                             {.key = "hidden_act",
                              .words = kExactGelu,
                              .applies = [](const ModelConfig& m) { return m.own.at("exact_gelu") != 0; },
                              .setting = "model.exact_gelu=true"},
                             {.key = "hidden_act",
                              .words = kTanh,
                              .applies = [](const ModelConfig& m) { return m.own.at("exact_gelu") == 0; },
                              .setting = "model.exact_gelu=false",
                              .absent = "gelu"}};

}  // namespace

extern const HfFamily neox;
const HfFamily neox{
    .family = "neox",
    .prefix = "gpt_neox.",
    .head = "embed_out.weight",
    .rows = kRows,
    .no_weights = kNoWeights,
    .numbers = kNumbers,
    .words = kWords,
    .sizes = kSizes,
    .keys = kKeys,
    .rest = R"({"architectures": ["GPTNeoXForCausalLM"], "attention_dropout": 0.0, "hidden_dropout": 0.0,
                                "bos_token_id": null, "eos_token_id": null})",
    .aliases = kAliases,
    .rotary = true};

}  // namespace weft::hf_families
