#include "weft/train/huggingface/hf_names.h"

#include <algorithm>

#include "fmt/format.h"
#include "weft/core/base/error.h"

namespace weft {
namespace {

// Letters: c width, h heads, g key-value heads, d head size, f hidden width, v vocabulary, t context.

// Weights are stored as in Conv1D: [in, out]. q, k and v are columns of one matrix and have the same number of heads.
constexpr HfRow kGpt2[] = {
    {"embed.weight", "vc", "transformer.wte.weight", "v,c"},
    {"positions", "tc", "transformer.wpe.weight", "t,c"},
    {"blocks.*.norm1.weight", "c", "transformer.h.*.ln_1.weight", "c"},
    {"blocks.*.norm1.bias", "c", "transformer.h.*.ln_1.bias", "c"},
    {"blocks.*.attn.q.weight", "chd", "transformer.h.*.attn.c_attn.weight", "c,hd", 0, 3},
    {"blocks.*.attn.q.bias", "hd", "transformer.h.*.attn.c_attn.bias", "hd", 0, 3},
    {"blocks.*.attn.k.weight", "cgd", "transformer.h.*.attn.c_attn.weight", "c,hd", 1, 3},
    {"blocks.*.attn.k.bias", "gd", "transformer.h.*.attn.c_attn.bias", "hd", 1, 3},
    {"blocks.*.attn.v.weight", "cgd", "transformer.h.*.attn.c_attn.weight", "c,hd", 2, 3},
    {"blocks.*.attn.v.bias", "gd", "transformer.h.*.attn.c_attn.bias", "hd", 2, 3},
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
constexpr const char* kGpt2NoWeights[] = {"*.attn.bias", "*.attn.masked_bias"};
constexpr HfNumber kGpt2Numbers[] = {
    {"n_head", "model.heads", [](const ModelConfig& m) { return double(m.heads); }, false,
     [](const ModelConfig&) { return 12.0; }},
    {"layer_norm_epsilon", "model.norm_eps", [](const ModelConfig& m) { return m.norm_eps; }, true,
     [](const ModelConfig&) { return 1e-5; }},
};
constexpr HfNumber kGpt2Sizes[] = {
    {"vocab_size", "model.vocab", [](const ModelConfig& m) { return double(m.vocab); }},
    {"n_positions", "model.context", [](const ModelConfig& m) { return double(m.context); }},
    {"n_embd", "model.dim", [](const ModelConfig& m) { return double(m.dim); }},
    {"n_layer", "model.layers", [](const ModelConfig& m) { return double(m.layers); }},
    {"n_inner", "model.ffn", [](const ModelConfig& m) { return double(m.ffn); }},
};
constexpr const char* kGpt2Rest =
    R"({"architectures": ["GPT2LMHeadModel"], "attn_pdrop": 0.0, "bos_token_id": null, "eos_token_id": null})";
constexpr HfAlias kGpt2Aliases[] = {{"hidden_size", "n_embd"},
                                    {"max_position_embeddings", "n_positions"},
                                    {"num_attention_heads", "n_head"},
                                    {"num_hidden_layers", "n_layer"}};
constexpr const char *kGpt2Type[] = {"gpt2"}, *kTanhGelu[] = {"gelu_new", "gelu_pytorch_tanh"};
constexpr HfWord kGpt2Words[] = {{"model_type", kGpt2Type}, {"activation_function", kTanhGelu}};

// Weights are stored as in Linear: [out, in]. Rotary pairs are dims d and d + D/2 of a head, as in Weft.
constexpr HfRow kLlama[] = {
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
constexpr const char* kLlamaNoWeights[] = {"*.rotary_emb.inv_freq"};
constexpr HfNumber kLlamaNumbers[] = {
    {"num_attention_heads", "model.heads", [](const ModelConfig& m) { return double(m.heads); }, false,
     [](const ModelConfig&) { return 32.0; }},
    {"num_key_value_heads", "model.kv_heads", [](const ModelConfig& m) { return double(m.kv_heads); }, false,
     [](const ModelConfig& m) { return double(m.heads); }},
    {"rms_norm_eps", "model.norm_eps", [](const ModelConfig& m) { return m.norm_eps; }, true,
     [](const ModelConfig&) { return 1e-6; }},
    {"rope_theta", "model.rope_theta", [](const ModelConfig& m) { return m.rope_theta; }, true,
     [](const ModelConfig&) { return 1e4; }},
    {"rope_scaling.factor", "model.rope_factor", [](const ModelConfig& m) { return m.rope_factor; }, true,
     [](const ModelConfig&) { return 1.0; }},
    {"rope_scaling.low_freq_factor", "model.rope_low", [](const ModelConfig& m) { return m.rope_low; }, true},
    {"rope_scaling.high_freq_factor", "model.rope_high", [](const ModelConfig& m) { return m.rope_high; }, true},
    {"rope_scaling.original_max_position_embeddings", "model.rope_context",
     [](const ModelConfig& m) { return double(m.rope_context); }},
};
constexpr HfNumber kLlamaSizes[] = {
    {"vocab_size", "model.vocab", [](const ModelConfig& m) { return double(m.vocab); }},
    {"max_position_embeddings", "model.context", [](const ModelConfig& m) { return double(m.context); }, false, nullptr,
     true},
    {"hidden_size", "model.dim", [](const ModelConfig& m) { return double(m.dim); }},
    {"num_hidden_layers", "model.layers", [](const ModelConfig& m) { return double(m.layers); }},
    {"intermediate_size", "model.ffn", [](const ModelConfig& m) { return double(m.ffn); }},
    {"head_dim", "model.dim / model.heads", [](const ModelConfig& m) { return double(m.dim / m.heads); }},
};
constexpr const char* kLlamaRest =
    R"({"architectures": ["LlamaForCausalLM"], "attention_bias": false, "mlp_bias": false, "attention_dropout": 0.0,
        "bos_token_id": null, "eos_token_id": null})";
constexpr const char *kLlamaType[] = {"llama"}, *kSilu[] = {"silu", "swish"};
constexpr HfWord kLlamaWords[] = {{"model_type", kLlamaType}, {"hidden_act", kSilu}};

constexpr HfFamily kFamilies[] = {
    {"gpt2", "transformer.", kGpt2, kGpt2NoWeights, kGpt2Numbers, kGpt2Words, kGpt2Sizes, kGpt2Rest, kGpt2Aliases, true,
     false},
    {"llama", "model.", kLlama, kLlamaNoWeights, kLlamaNumbers, kLlamaWords, kLlamaSizes, kLlamaRest, {}, false, true}};

// Returns "7" if `pattern` is "blocks.*.attn" and `path` is "blocks.7.attn", "" if the two are equal, or none.
std::optional<std::string> MatchBlock(std::string_view pattern, std::string_view path) {
  size_t star = pattern.find('*');
  if (star == pattern.npos) return pattern == path ? std::optional("") : std::nullopt;
  std::string_view head = pattern.substr(0, star), tail = pattern.substr(star + 1);
  if (path.size() <= head.size() + tail.size() || !path.starts_with(head) || !path.ends_with(tail)) return std::nullopt;
  std::string number(path.substr(head.size(), path.size() - head.size() - tail.size()));
  return number.find_first_not_of("0123456789") == number.npos ? std::optional(number) : std::nullopt;
}

std::string WithBlock(std::string name, const std::string& number) {
  if (size_t star = name.find('*'); star != name.npos) name.replace(star, 1, number);
  return name;
}

// Returns the index after the last of their elements that the parameter uses.
int64_t EndOf(const HfPlace& place, const Shape& ours) {
  int64_t last = place.offset + (place.copies - 1) * place.copy_stride;
  for (size_t d = 0; d < ours.size(); d++) last += (ours[d] - 1) * place.strides[d];
  return last + 1;
}

// Goes through their dims from last to first, and through the letters of each dim from last to first. The stride of a
// letter is the product of the extents of all letters after it.
HfPlace Lay(const HfRow& row, const Shape& ours, int64_t heads) {
  std::string_view dims = row.dims, layout = row.layout;
  HfPlace place{.strides = Shape(ours.size())};
  int64_t extent = 1, stride = 1;
  auto close_dim = [&] {
    bool last = place.shape.empty();
    if (last) place.offset = row.part * extent;
    place.shape.insert(place.shape.begin(), last ? extent * row.parts : extent);
    if (last) stride *= row.parts;
    extent = 1;
  };
  for (auto letter = layout.rbegin(); letter != layout.rend(); ++letter) {
    if (*letter == ',') {
      close_dim();
      continue;
    }
    bool repeated = *letter == 'h' && dims.find('h') == dims.npos;
    size_t d = dims.find(repeated ? 'g' : *letter);
    if (repeated) {
      WEFT_CHECK(heads % ours[d] == 0,
                 fmt::format("{}: {} heads are no groups for {} key-value heads", row.parameter, heads, ours[d]));
      place.copies = heads / ours[d];
      place.copy_stride = stride;
    }
    int64_t copies = repeated ? place.copies : 1;
    place.strides[d] = stride * copies;
    stride *= ours[d] * copies;
    extent *= ours[d] * copies;
  }
  close_dim();
  return place;
}

}  // namespace

const HfFamily* FindHfFamily(std::string_view family) {
  for (const HfFamily& hf : kFamilies)
    if (family == hf.family) return &hf;
  return nullptr;
}

std::optional<HfPlace> PlaceInHf(const HfFamily& family, const std::string& parameter, const Shape& shape,
                                 int64_t heads) {
  for (const HfRow& row : family.rows) {
    std::optional<std::string> number = MatchBlock(row.parameter, parameter);
    if (!number) continue;
    WEFT_CHECK(std::string_view(row.dims).size() == shape.size(),
               fmt::format("{} is {}, but its row has the dims \"{}\"", parameter, ToString(shape), row.dims));
    HfPlace place = Lay(row, shape, heads);
    place.tensor = WithBlock(row.tensor, *number);
    WEFT_CHECK(EndOf(place, shape) <= NumElements(place.shape),
               fmt::format("{}: {} {} would end at element {} of {}", place.tensor, parameter, ToString(shape),
                           EndOf(place, shape), ToString(place.shape)));
    return place;
  }
  return std::nullopt;
}

}  // namespace weft
