// Values and rows that the tables of several families share.
#pragma once
#include "weft/train/huggingface/hf_names.h"

namespace weft::hf {

inline double Layers(const ModelConfig& m) { return double(m.layers); }
inline double Heads(const ModelConfig& m) { return double(m.heads); }
inline double KvHeads(const ModelConfig& m) { return double(m.kv_heads); }
inline double Dim(const ModelConfig& m) { return double(m.dim); }
inline double Ffn(const ModelConfig& m) { return double(m.ffn); }
inline double Vocab(const ModelConfig& m) { return double(m.vocab); }
inline double Context(const ModelConfig& m) { return double(m.context); }
inline double NormEps(const ModelConfig& m) { return m.norm_eps; }
inline double RopeTheta(const ModelConfig& m) { return m.rope_theta; }
inline double RopeFactor(const ModelConfig& m) { return m.rope_factor; }
inline double RopeLow(const ModelConfig& m) { return m.rope_low; }
inline double RopeHigh(const ModelConfig& m) { return m.rope_high; }
inline double RopeContext(const ModelConfig& m) { return double(m.rope_context); }
inline double HeadDim(const ModelConfig& m) {
  int64_t own = m.own_integers.at("head_dim");
  return double(own ? own : m.dim / m.heads);
}
template <int64_t value>
double Always(const ModelConfig&) {
  return double(value);
}

// Why keys of several families are neutral.
inline constexpr const char *kLabels = "it is for heads that classify",
                            *kDropout = "it is for training, where model.dropout says how much is dropped";

inline constexpr const char *kExactGelu[] = {"gelu", "gelu_python"}, *kTanhGelu[] = {"gelu_new", "gelu_pytorch_tanh"},
                            *kSilu[] = {"silu", "swish"};

// The scaling of a rotary embedding, kHfScaling.
inline constexpr HfNumber kRopeFactor{.key = "rope_scaling.factor",
                                      .ours = "model.rope_factor",
                                      .value = RopeFactor,
                                      .kind = HfNumber::kReal,
                                      .absent = Always<1>},
    kRopeLow{
        .key = "rope_scaling.low_freq_factor", .ours = "model.rope_low", .value = RopeLow, .kind = HfNumber::kReal},
    kRopeHigh{
        .key = "rope_scaling.high_freq_factor", .ours = "model.rope_high", .value = RopeHigh, .kind = HfNumber::kReal},
    kRopeContext{
        .key = "rope_scaling.original_max_position_embeddings", .ours = "model.rope_context", .value = RopeContext};

// For models like Llama.
inline constexpr HfNumber kLlamaRopeTheta{.key = "rope_theta",
                                          .ours = "model.rope_theta",
                                          .value = RopeTheta,
                                          .kind = HfNumber::kReal,
                                          .absent = Always<10000>},
    kSlidingWindow{.key = "sliding_window",
                   .ours = "model.window",
                   .value = [](const ModelConfig&m) { return double(m.own_integers.at("window")); },
                   .absent = Always<4096>,
                   .null = true};

}  // namespace weft::hf
