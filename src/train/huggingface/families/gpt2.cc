// transformers' GPT2LMHeadModel.
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Conv1D: [in, out]. q, k and v are columns of one matrix and have the same number of heads.
constexpr HfRow kRows[] = {
    {"embed.weight", "vc", "transformer.wte.weight", "v,c"},
    {"positions", "tc", "transformer.wpe.weight", "t,c"},
    {"blocks.*.norm1.weight", "c", "transformer.h.*.ln_1.weight", "c"},
    {"blocks.*.norm1.bias", "c", "transformer.h.*.ln_1.bias", "c"},
    {"blocks.*.attn.q.weight", "chd", "transformer.h.*.attn.c_attn.weight", "c,phd", 0, 3},
    {"blocks.*.attn.q.bias", "hd", "transformer.h.*.attn.c_attn.bias", "phd", 0, 3},
    {"blocks.*.attn.k.weight", "cgd", "transformer.h.*.attn.c_attn.weight", "c,phd", 1, 3},
    {"blocks.*.attn.k.bias", "gd", "transformer.h.*.attn.c_attn.bias", "phd", 1, 3},
    {"blocks.*.attn.v.weight", "cgd", "transformer.h.*.attn.c_attn.weight", "c,phd", 2, 3},
    {"blocks.*.attn.v.bias", "gd", "transformer.h.*.attn.c_attn.bias", "phd", 2, 3},
    {"blocks.*.attn.proj.weight", "hdc", "transformer.h.*.attn.c_proj.weight", "hd,c"},
    {"blocks.*.attn.proj.bias", "c", "transformer.h.*.attn.c_proj.bias", "c"},
    {"blocks.*.norm2.weight", "c", "transformer.h.*.ln_2.weight", "c"},
    {"blocks.*.norm2.bias", "c", "transformer.h.*.ln_2.bias", "c"},
    {"blocks.*.mlp.up.weight", "cf", "transformer.h.*.mlp.c_fc.weight", "c,f"},
    {"blocks.*.mlp.up.bias", "f", "transformer.h.*.mlp.c_fc.bias", "f"},
    {"blocks.*.mlp.down.weight", "fc", "transformer.h.*.mlp.c_proj.weight", "f,c"},
    {"blocks.*.mlp.down.bias", "c", "transformer.h.*.mlp.c_proj.bias", "c"},
    {"norm.weight", "c", "transformer.ln_f.weight", "c"},
    {"norm.bias", "c", "transformer.ln_f.bias", "c"},
    {"head.weight", "vc", "lm_head.weight", "v,c"},
};
constexpr const char* kNoWeights[] = {"*.attn.bias", "*.attn.masked_bias"};
constexpr HfNumber kNumbers[] = {
    {.key = "n_head", .ours = "model.heads", .value = Heads, .absent = Always<12>},
    {.key = "layer_norm_epsilon",
     .ours = "model.norm_eps",
     .value = NormEps,
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 1e-5; }},
};
constexpr HfNumber kSizes[] = {
    {.key = "vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "n_positions", .ours = "model.context", .value = Context},
    {.key = "n_embd", .ours = "model.dim", .value = Dim},
    {.key = "n_layer", .ours = "model.layers", .value = Layers},
    {.key = "n_inner", .ours = "model.ffn", .value = Ffn},
};
constexpr HfKey kKeys[] = {
    {"scale_attn_weights", "expected true: Weft divides scores by the square root of the head size", IsTrue},
    {"scale_attn_by_inverse_layer_idx", "expected false: Weft does not divide scores by the number of the block",
     IsFalse},
    {"reorder_and_upcast_attn", "it is the same product; Weft sums scores in f32 as it does"},
    {"n_ctx", "it is the size of a mask"},
    {"attn_pdrop", kDropout},
    {"resid_pdrop", kDropout},
    {"embd_pdrop", kDropout},
    {"hidden_dropout", kLabels},
    {"summary_type", kLabels},
    {"summary_use_proj", kLabels},
    {"summary_activation", kLabels},
    {"summary_proj_to_labels", kLabels},
    {"summary_first_dropout", kLabels},
};
constexpr HfAlias kAliases[] = {{"hidden_size", "n_embd"},
                                {"max_position_embeddings", "n_positions"},
                                {"num_attention_heads", "n_head"},
                                {"num_hidden_layers", "n_layer"}};
constexpr const char* kType[] = {"gpt2"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType}, {.key = "activation_function", .words = kTanhGelu}};

}  // namespace

extern const HfFamily gpt2;
const HfFamily gpt2{
    .family = "gpt2",
    .prefix = "transformer.",
    .head = "lm_head.weight",
    .rows = kRows,
    .no_weights = kNoWeights,
    .numbers = kNumbers,
    .words = kWords,
    .sizes = kSizes,
    .keys = kKeys,
    .rest = R"({"architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0, "bos_token_id": null, "eos_token_id": null})",
    .aliases = kAliases,
    .tied = true};

}  // namespace weft::hf_families
