// transformers' Gemma2ForCausalLM.
#include "weft/train/huggingface/families/llama_rows.h"
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Linear: [out, in].
constexpr HfRow kRows[] = {
    {"embed.weight", "vc", "model.embed_tokens.weight", "v,c"},
    {"blocks.*.norm1.weight", "c", "model.layers.*.input_layernorm.weight", "c"},
    {"blocks.*.attn.q.weight", "chd", "model.layers.*.self_attn.q_proj.weight", "hd,c"},
    {"blocks.*.attn.k.weight", "cgd", "model.layers.*.self_attn.k_proj.weight", "gd,c"},
    {"blocks.*.attn.v.weight", "cgd", "model.layers.*.self_attn.v_proj.weight", "gd,c"},
    {"blocks.*.attn.proj.weight", "hdc", "model.layers.*.self_attn.o_proj.weight", "c,hd"},
    {"blocks.*.post_norm1.weight", "c", "model.layers.*.post_attention_layernorm.weight", "c"},
    {"blocks.*.norm2.weight", "c", "model.layers.*.pre_feedforward_layernorm.weight", "c"},
    {"blocks.*.mlp.gate.weight", "cf", "model.layers.*.mlp.gate_proj.weight", "f,c"},
    {"blocks.*.mlp.up.weight", "cf", "model.layers.*.mlp.up_proj.weight", "f,c"},
    {"blocks.*.mlp.down.weight", "fc", "model.layers.*.mlp.down_proj.weight", "c,f"},
    {"blocks.*.post_norm2.weight", "c", "model.layers.*.post_feedforward_layernorm.weight", "c"},
    {"norm.weight", "c", "model.norm.weight", "c"},
    {"head.weight", "vc", "lm_head.weight", "v,c"},
};
constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<8>},
    {.key = "num_key_value_heads", .ours = "model.kv_heads", .value = KvHeads, .absent = Always<4>},
    {.key = "rms_norm_eps",
     .ours = "model.norm_eps",
     .value = NormEps,
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 1e-6; }},
    kLlamaRopeTheta,
    kRopeFactor,
    kRopeLow,
    kRopeHigh,
    kRopeContext,
    kSlidingWindow,
    {.key = "head_dim", .ours = "model.head_dim", .value = HeadDim, .absent = Always<256>},
    {.key = "query_pre_attn_scalar",
     .ours = "model.query_scalar",
     .value =
         [](const ModelConfig& m) {
           int64_t scalar = m.own_integers.at("query_scalar");
           return scalar ? double(scalar) : HeadDim(m);
         },
     .absent = Always<256>},
    {.key = "attn_logit_softcapping",
     .ours = "model.attention_softcap",
     .value = [](const ModelConfig& m) { return m.own.at("attention_softcap"); },
     .kind = HfNumber::kReal,
     .absent = Always<50>,
     .null = true},
    {.key = "final_logit_softcapping",
     .ours = "model.logit_softcap",
     .value = [](const ModelConfig& m) { return m.own.at("logit_softcap"); },
     .kind = HfNumber::kReal,
     .absent = Always<30>,
     .null = true},
};
// The first block has the window, the second has not, and so on.
bool IsAlternating(const nlohmann::json& v) {
  if (v.is_null()) return true;
  if (!v.is_array()) return false;
  for (size_t i = 0; i < v.size(); i++)
    if (v[i] != (i % 2 ? "full_attention" : "sliding_attention")) return false;
  return true;
}
constexpr HfKey kKeys[] = {
    {"attention_bias", "expected false: the products of Weft's gemma2 have no biases", IsFalse},
    {"use_bidirectional_attention", "expected false: in Weft a token sees none that come after it", IsFalse},
    {"layer_types", "expected sliding_attention and full_attention in turn, as Weft's gemma2 has them", IsAlternating},
    {"partial_rotary_factor", "expected 1: Weft's gemma2 rotates whole heads", IsOneOrNone},
    {"hidden_act", "transformers reads hidden_activation"},
    {"cache_implementation", "it is for generation"},
    {"attention_dropout", kDropout},
};
constexpr HfFixed kFixed[] = {
    {"model.window_pattern", [](const ModelConfig& m) { return double(m.own_integers.at("window_pattern")); }, 2}};
constexpr const char *kType[] = {"gemma2"}, *kTanh[] = {"gelu_pytorch_tanh", "gelu_new"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType}, {.key = "hidden_activation", .words = kTanh}};

}  // namespace

extern const HfFamily gemma2;
const HfFamily gemma2{.family = "gemma2",
                      .prefix = "model.",
                      .head = "lm_head.weight",
                      .rows = kRows,
                      .no_weights = kLlamaNoWeights,
                      .numbers = kNumbers,
                      .words = kWords,
                      .sizes = kLlamaSizes,
                      .keys = kKeys,
                      .rest = R"({"architectures": ["Gemma2ForCausalLM"], "attention_bias": false,
                                  "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null,
                                  "pad_token_id": null})",
                      .fixed = kFixed,
                      .tied = true,
                      .rotary = true,
                      .context = 8192};

}  // namespace weft::hf_families
