// transformers' BertForMaskedLM.
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Linear: [out, in]. There are as many key and value heads as query heads.
constexpr HfRow kRows[] = {
    {"embed.weight", "vc", "bert.embeddings.word_embeddings.weight", "v,c"},
    {"positions", "tc", "bert.embeddings.position_embeddings.weight", "t,c"},
    {"token_types", "sc", "bert.embeddings.token_type_embeddings.weight", "s,c"},
    {"norm.weight", "c", "bert.embeddings.LayerNorm.weight", "c"},
    {"norm.bias", "c", "bert.embeddings.LayerNorm.bias", "c"},
    {"blocks.*.attn.q.weight", "chd", "bert.encoder.layer.*.attention.self.query.weight", "hd,c"},
    {"blocks.*.attn.q.bias", "hd", "bert.encoder.layer.*.attention.self.query.bias", "hd"},
    {"blocks.*.attn.k.weight", "cgd", "bert.encoder.layer.*.attention.self.key.weight", "hd,c"},
    {"blocks.*.attn.k.bias", "gd", "bert.encoder.layer.*.attention.self.key.bias", "hd"},
    {"blocks.*.attn.v.weight", "cgd", "bert.encoder.layer.*.attention.self.value.weight", "hd,c"},
    {"blocks.*.attn.v.bias", "gd", "bert.encoder.layer.*.attention.self.value.bias", "hd"},
    {"blocks.*.attn.proj.weight", "hdc", "bert.encoder.layer.*.attention.output.dense.weight", "c,hd"},
    {"blocks.*.attn.proj.bias", "c", "bert.encoder.layer.*.attention.output.dense.bias", "c"},
    {"blocks.*.norm1.weight", "c", "bert.encoder.layer.*.attention.output.LayerNorm.weight", "c"},
    {"blocks.*.norm1.bias", "c", "bert.encoder.layer.*.attention.output.LayerNorm.bias", "c"},
    {"blocks.*.mlp.up.weight", "cf", "bert.encoder.layer.*.intermediate.dense.weight", "f,c"},
    {"blocks.*.mlp.up.bias", "f", "bert.encoder.layer.*.intermediate.dense.bias", "f"},
    {"blocks.*.mlp.down.weight", "fc", "bert.encoder.layer.*.output.dense.weight", "c,f"},
    {"blocks.*.mlp.down.bias", "c", "bert.encoder.layer.*.output.dense.bias", "c"},
    {"blocks.*.norm2.weight", "c", "bert.encoder.layer.*.output.LayerNorm.weight", "c"},
    {"blocks.*.norm2.bias", "c", "bert.encoder.layer.*.output.LayerNorm.bias", "c"},
    {"dense.weight", "cd", "cls.predictions.transform.dense.weight", "d,c"},
    {"dense.bias", "d", "cls.predictions.transform.dense.bias", "d"},
    {"last_norm.weight", "c", "cls.predictions.transform.LayerNorm.weight", "c"},
    {"last_norm.bias", "c", "cls.predictions.transform.LayerNorm.bias", "c"},
    {"head.weight", "vc", "cls.predictions.decoder.weight", "v,c"},
    {"head.bias", "v", "cls.predictions.bias", "v"},
};
// The pooler and the second training task of files with them are of no use to predict tokens.
constexpr const char* kNoWeights[] = {"*embeddings.position_ids", "*pooler.*", "cls.seq_relationship.*"};
// With an untied head, transformers reads the second.
constexpr HfTwin kTwins[] = {{"cls.predictions.bias", "cls.predictions.decoder.bias"}};
constexpr HfTwin kOldNames[] = {{"LayerNorm.weight", "LayerNorm.gamma"}, {"LayerNorm.bias", "LayerNorm.beta"}};
constexpr HfNumber kNumbers[] = {
    {.key = "num_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<12>},
    {.key = "layer_norm_eps",
     .ours = "model.norm_eps",
     .value = NormEps,
     .kind = HfNumber::kReal,
     .absent = [](const ModelConfig&) { return 1e-12; }},
};
constexpr HfNumber kSizes[] = {
    {.key = "vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "max_position_embeddings", .ours = "model.context", .value = Context},
    {.key = "hidden_size", .ours = "model.dim", .value = Dim},
    {.key = "num_hidden_layers", .ours = "model.layers", .value = Layers},
    {.key = "intermediate_size", .ours = "model.ffn", .value = Ffn},
    {.key = "type_vocab_size",
     .ours = "model.token_types",
     .value = [](const ModelConfig& m) { return double(m.own_integers.at("token_types")); }},
};
bool IsAbsolute(const nlohmann::json& v) { return v.is_null() || v == "absolute"; }
constexpr HfKey kKeys[] = {
    {"is_causal", "expected none: in Weft's bert a token sees both sides", IsFalse},
    {"is_decoder", "expected false: in Weft's bert a token sees both sides", IsFalse},
    {"position_embedding_type", "expected absolute: Weft's bert adds positions to the tokens", IsAbsolute},
    {"hidden_dropout_prob", kDropout},
    {"attention_probs_dropout_prob", kDropout},
};
constexpr const char* kType[] = {"bert"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType},
                             {.key = "hidden_act",
                              .words = kExactGelu,
                              .applies = [](const ModelConfig& m) { return m.own.at("exact_gelu") != 0; },
                              .setting = "model.exact_gelu=true"},
                             {.key = "hidden_act",
                              .words = kTanhGelu,
                              .applies = [](const ModelConfig& m) { return m.own.at("exact_gelu") == 0; },
                              .setting = "model.exact_gelu=false",
                              .absent = "gelu"}};
constexpr HfFixed kFixed[] = {{"model.transform", [](const ModelConfig& m) { return m.own.at("transform"); }, 1}};

}  // namespace

extern const HfFamily bert;
const HfFamily bert{
    .family = "bert",
    .prefix = "bert.",
    .head = "cls.predictions.decoder.weight",
    .rows = kRows,
    .no_weights = kNoWeights,
    .numbers = kNumbers,
    .words = kWords,
    .sizes = kSizes,
    .keys = kKeys,
    .rest = R"({"architectures": ["BertForMaskedLM"], "hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0,
                "pad_token_id": null})",
    .twins = kTwins,
    .old_names = kOldNames,
    .fixed = kFixed,
    .tied = true};

}  // namespace weft::hf_families
