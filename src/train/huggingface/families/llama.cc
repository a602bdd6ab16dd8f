// transformers' LlamaForCausalLM.
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Linear: [out, in]. Rotary pairs are dims d and d + D/2 of a head, as in Weft.
constexpr HfRow kRows[] = {
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
constexpr const char* kNoWeights[] = {"*.rotary_emb.inv_freq"};
constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<32>},
    {.key = "num_key_value_heads", .ours = "model.kv_heads", .value = KvHeads, .absent = Heads},
    {.key = "rms_norm_eps",
     .ours = "model.norm_eps",
     .value = NormEps,
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 1e-6; }},
    {.key = "rope_theta",
     .ours = "model.rope_theta",
     .value = RopeTheta,
     .kind = HfNumber::kReal,
     .absent = Always<10000>},
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
    {.key = "head_dim",
     .ours = "model.dim / model.heads",
     .value = [](const ModelConfig& m) { return double(m.dim / m.heads); }},
};
constexpr HfKey kKeys[] = {
    {"attention_bias", "expected false: the products of Weft's llama have no biases", IsFalse},
    {"mlp_bias", "expected false: the products of Weft's llama have no biases", IsFalse},
    {"partial_rotary_factor", "expected 1: Weft rotates whole heads", IsOneOrNone},
    {"attention_dropout", kDropout},
    {"pretraining_tp", "it splits the same products"},
};
constexpr const char* kType[] = {"llama"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType}, {.key = "hidden_act", .words = kSilu}};

}  // namespace

extern const HfFamily llama;
const HfFamily llama{.family = "llama",
                     .prefix = "model.",
                     .head = "lm_head.weight",
                     .rows = kRows,
                     .no_weights = kNoWeights,
                     .numbers = kNumbers,
                     .words = kWords,
                     .sizes = kSizes,
                     .keys = kKeys,
                     .rest = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "mlp_bias": false,
                "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null})",
                     .rotary = true};

}  // namespace weft::hf_families
