// transformers' MarianMTModel.
#include "weft/train/huggingface/families/values.h"

namespace weft::hf_families {
namespace {

using namespace hf;

// Weights are stored as in Linear: [out, in]. There are as many key and value heads as query heads.
constexpr HfRow kRows[] = {
    {"embed.weight", "vc", "model.shared.weight", "v,c"},
    {"encoder.*.attn.q.weight", "chd", "model.encoder.layers.*.self_attn.q_proj.weight", "hd,c"},
    {"encoder.*.attn.q.bias", "hd", "model.encoder.layers.*.self_attn.q_proj.bias", "hd"},
    {"encoder.*.attn.k.weight", "cgd", "model.encoder.layers.*.self_attn.k_proj.weight", "hd,c"},
    {"encoder.*.attn.k.bias", "gd", "model.encoder.layers.*.self_attn.k_proj.bias", "hd"},
    {"encoder.*.attn.v.weight", "cgd", "model.encoder.layers.*.self_attn.v_proj.weight", "hd,c"},
    {"encoder.*.attn.v.bias", "gd", "model.encoder.layers.*.self_attn.v_proj.bias", "hd"},
    {"encoder.*.attn.proj.weight", "hdc", "model.encoder.layers.*.self_attn.out_proj.weight", "c,hd"},
    {"encoder.*.attn.proj.bias", "c", "model.encoder.layers.*.self_attn.out_proj.bias", "c"},
    {"encoder.*.norm1.weight", "c", "model.encoder.layers.*.self_attn_layer_norm.weight", "c"},
    {"encoder.*.norm1.bias", "c", "model.encoder.layers.*.self_attn_layer_norm.bias", "c"},
    {"encoder.*.mlp.up.weight", "cf", "model.encoder.layers.*.fc1.weight", "f,c"},
    {"encoder.*.mlp.up.bias", "f", "model.encoder.layers.*.fc1.bias", "f"},
    {"encoder.*.mlp.down.weight", "fc", "model.encoder.layers.*.fc2.weight", "c,f"},
    {"encoder.*.mlp.down.bias", "c", "model.encoder.layers.*.fc2.bias", "c"},
    {"encoder.*.norm2.weight", "c", "model.encoder.layers.*.final_layer_norm.weight", "c"},
    {"encoder.*.norm2.bias", "c", "model.encoder.layers.*.final_layer_norm.bias", "c"},
    {"decoder.*.attn.q.weight", "chd", "model.decoder.layers.*.self_attn.q_proj.weight", "hd,c"},
    {"decoder.*.attn.q.bias", "hd", "model.decoder.layers.*.self_attn.q_proj.bias", "hd"},
    {"decoder.*.attn.k.weight", "cgd", "model.decoder.layers.*.self_attn.k_proj.weight", "hd,c"},
    {"decoder.*.attn.k.bias", "gd", "model.decoder.layers.*.self_attn.k_proj.bias", "hd"},
    {"decoder.*.attn.v.weight", "cgd", "model.decoder.layers.*.self_attn.v_proj.weight", "hd,c"},
    {"decoder.*.attn.v.bias", "gd", "model.decoder.layers.*.self_attn.v_proj.bias", "hd"},
    {"decoder.*.attn.proj.weight", "hdc", "model.decoder.layers.*.self_attn.out_proj.weight", "c,hd"},
    {"decoder.*.attn.proj.bias", "c", "model.decoder.layers.*.self_attn.out_proj.bias", "c"},
    {"decoder.*.norm1.weight", "c", "model.decoder.layers.*.self_attn_layer_norm.weight", "c"},
    {"decoder.*.norm1.bias", "c", "model.decoder.layers.*.self_attn_layer_norm.bias", "c"},
    {"decoder.*.cross.q.weight", "chd", "model.decoder.layers.*.encoder_attn.q_proj.weight", "hd,c"},
    {"decoder.*.cross.q.bias", "hd", "model.decoder.layers.*.encoder_attn.q_proj.bias", "hd"},
    {"decoder.*.cross.k.weight", "cgd", "model.decoder.layers.*.encoder_attn.k_proj.weight", "hd,c"},
    {"decoder.*.cross.k.bias", "gd", "model.decoder.layers.*.encoder_attn.k_proj.bias", "hd"},
    {"decoder.*.cross.v.weight", "cgd", "model.decoder.layers.*.encoder_attn.v_proj.weight", "hd,c"},
    {"decoder.*.cross.v.bias", "gd", "model.decoder.layers.*.encoder_attn.v_proj.bias", "hd"},
    {"decoder.*.cross.proj.weight", "hdc", "model.decoder.layers.*.encoder_attn.out_proj.weight", "c,hd"},
    {"decoder.*.cross.proj.bias", "c", "model.decoder.layers.*.encoder_attn.out_proj.bias", "c"},
    {"decoder.*.norm2.weight", "c", "model.decoder.layers.*.encoder_attn_layer_norm.weight", "c"},
    {"decoder.*.norm2.bias", "c", "model.decoder.layers.*.encoder_attn_layer_norm.bias", "c"},
    {"decoder.*.mlp.up.weight", "cf", "model.decoder.layers.*.fc1.weight", "f,c"},
    {"decoder.*.mlp.up.bias", "f", "model.decoder.layers.*.fc1.bias", "f"},
    {"decoder.*.mlp.down.weight", "fc", "model.decoder.layers.*.fc2.weight", "c,f"},
    {"decoder.*.mlp.down.bias", "c", "model.decoder.layers.*.fc2.bias", "c"},
    {"decoder.*.norm3.weight", "c", "model.decoder.layers.*.final_layer_norm.weight", "c"},
    {"decoder.*.norm3.bias", "c", "model.decoder.layers.*.final_layer_norm.bias", "c"},
    {"head.bias", "v", "final_logits_bias", ",v"},
};
// Positions are computed.
constexpr const char* kNoWeights[] = {"*.embed_positions.weight"};
constexpr HfTwin kTwins[] = {{"model.shared.weight", "model.encoder.embed_tokens.weight", false},
                             {"model.shared.weight", "model.decoder.embed_tokens.weight", false}};
double DecoderLayers(const ModelConfig& m) {
  int64_t own = m.own_integers.at("decoder_layers");
  return double(own ? own : m.layers);
}
double LastKind(const ModelConfig& m) { return double(m.vocab - 1); }
constexpr HfNumber kNumbers[] = {
    {.key = "encoder_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<16>},
    {.key = "decoder_attention_heads", .ours = "model.heads", .value = Heads, .absent = Always<16>},
    {.key = "scale_embedding",
     .ours = "model.scale_embedding",
     .value = [](const ModelConfig& m) { return m.own.at("scale_embedding"); },
     .kind = HfNumber::kFlag,
     .absent = Always<0>},
};
constexpr HfNumber kSizes[] = {
    {.key = "vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "decoder_vocab_size", .ours = "model.vocab", .value = Vocab},
    {.key = "max_position_embeddings", .ours = "model.context", .value = Context, .free = true},
    {.key = "d_model", .ours = "model.dim", .value = Dim},
    {.key = "encoder_layers", .ours = "model.layers", .value = Layers},
    {.key = "decoder_layers", .ours = "model.decoder_layers", .value = DecoderLayers},
    {.key = "encoder_ffn_dim", .ours = "model.ffn", .value = Ffn},
    {.key = "decoder_ffn_dim", .ours = "model.ffn", .value = Ffn},
    // In what Weft trains the last kind of token begins a text and fills its row.
    {.key = "pad_token_id", .ours = "model.vocab - 1", .value = LastKind, .free = true},
    {.key = "decoder_start_token_id", .ours = "model.vocab - 1", .value = LastKind, .free = true},
};
constexpr HfKey kKeys[] = {
    {"is_encoder_decoder", "expected true: Weft's marian has an encoder", IsTrueOrNone},
    {"static_position_embeddings", "expected true: positions of Weft's marian are computed", IsTrueOrNone},
    {"share_encoder_decoder_embeddings", "expected true: Weft's marian has one embedding", IsTrueOrNone},
    {"normalize_before", "expected false: the norms of Weft's marian follow the sums", IsFalse},
    {"normalize_embedding", "expected false: Weft's marian has no norm of embeddings", IsFalse},
    {"add_final_layer_norm", "expected false: Weft's marian has no norm after the last block", IsFalse},
    {"add_bias_logits", "it is for training in Marian"},
    {"dropout", kDropout},
    {"attention_dropout", kDropout},
    {"activation_dropout", kDropout},
    {"encoder_layerdrop", kDropout},
    {"decoder_layerdrop", kDropout},
    {"init_std", "it is for random values"},
};
constexpr HfAlias kAliases[] = {{"hidden_size", "d_model"},
                                {"num_attention_heads", "encoder_attention_heads"},
                                {"num_hidden_layers", "encoder_layers"}};
constexpr const char* kType[] = {"marian"};
constexpr HfWord kWords[] = {{.key = "model_type", .words = kType},
                             {.key = "activation_function",
                              .words = kSilu,
                              .applies = [](const ModelConfig& m) { return m.own.at("swish") != 0; },
                              .setting = "model.swish=true",
                              .absent = "gelu"},
                             {.key = "activation_function",
                              .words = kExactGelu,
                              .applies = [](const ModelConfig& m) { return m.own.at("swish") == 0; },
                              .setting = "model.swish=false"}};
constexpr HfFixed kFixed[] = {
    {"model.tie_embeddings", [](const ModelConfig& m) { return double(m.tie_embeddings); }, 1},
    {"model.norm_eps", NormEps, 1e-5},
};

}  // namespace

extern const HfFamily marian;
const HfFamily marian{.family = "marian",
                      .prefix = "model.",
                      .head = "lm_head.weight",
                      .rows = kRows,
                      .no_weights = kNoWeights,
                      .numbers = kNumbers,
                      .words = kWords,
                      .sizes = kSizes,
                      .keys = kKeys,
                      .rest = R"({"architectures": ["MarianMTModel"], "is_encoder_decoder": true, "dropout": 0.0,
                "eos_token_id": null, "forced_eos_token_id": null})",
                      .aliases = kAliases,
                      .twins = kTwins,
                      .fixed = kFixed,
                      .tied = true};

}  // namespace weft::hf_families
