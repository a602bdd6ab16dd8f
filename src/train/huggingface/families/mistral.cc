// transformers' MistralForCausalLM.
#include "weft/train/huggingface/families/llama_rows.h"
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<32>},
    {.key = "num_key_value_heads", .ours = "model.kv_heads", .value = KvHeads, .absent = Always<8>},
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
    {.key = "head_dim",
     .ours = "model.head_dim",
     .value = HeadDim,
     .absent = [](const ModelConfig& m) { return double(m.dim / m.heads); }},
};
constexpr HfKey kKeys[] = {
    {"attention_dropout", kDropout},
    {"partial_rotary_factor", "expected 1: Weft's mistral rotates whole heads", IsOneOrNone},
};
constexpr const char* kType[] = {"mistral"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType}, {.key = "hidden_act", .words = kSilu}};

}  // namespace

extern const HfFamily mistral;
const HfFamily mistral{.family = "mistral",
                       .prefix = "model.",
                       .head = "lm_head.weight",
                       .rows = kLlamaRows,
                       .no_weights = kLlamaNoWeights,
                       .numbers = kNumbers,
                       .words = kWords,
                       .sizes = kLlamaSizes,
                       .keys = kKeys,
                       .rest = R"({"architectures": ["MistralForCausalLM"], "attention_dropout": 0.0,
                                   "bos_token_id": null, "eos_token_id": null})",
                       .rotary = true,
                       .context = 131072};

}  // namespace weft::hf_families
