// transformers' LlamaForCausalLM.
#include "weft/train/huggingface/families/llama_rows.h"

namespace weft::hf_families {
namespace {

using namespace hf;

constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<32>},
    {.key = "num_key_value_heads", .ours = "model.kv_heads", .value = KvHeads, .absent = Heads},
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
                     .rows = kLlamaRows,
                     .no_weights = kLlamaNoWeights,
                     .numbers = kNumbers,
                     .words = kWords,
                     .sizes = kLlamaSizes,
                     .keys = kKeys,
                     .rest = R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "mlp_bias": false,
                "attention_dropout": 0.0, "bos_token_id": null, "eos_token_id": null})",
                     .rotary = true};

}  // namespace weft::hf_families
