#include "weft/train/huggingface/hf_keys.h"

#include <algorithm>

#include "weft/train/huggingface/hf_names.h"

namespace weft {
namespace {

using namespace hf;
using Json = nlohmann::json;

bool IsFullAttention(const Json& v) {
  return v.is_null() || (v.is_array() && std::ranges::all_of(v, [](const Json& layer) {
                           return layer == "full_attention" || layer == "attention";
                         }));
}

// Reasons shared by several keys.
constexpr const char *kLabels = "it is for heads that classify", *kGeneration = "weft generate has options of its own",
                     *kTokens = "it is for the tokenizer and for generation",
                     *kOutputs = "it says what is returned, not what is computed",
                     *kStorage = "precision.compute says in which type Weft computes", *kRecord = "it is a record",
                     *kMemory = "it trades memory for time", *kDecoder = "it is for models with an encoder";

constexpr HfKey kGeneric[] = {
    {"is_causal", "expected true: in Weft a token sees none that come after it", IsTrueOrNone},
    {"is_encoder_decoder", "expected false: this family has no encoder and decoder", IsFalse},
    {"add_cross_attention", "expected false: this family has no cross-attention", IsFalse},
    {"pruned_heads", "expected none: in Weft all blocks have the same heads", IsNone},
    {"per_layer_config", "expected none: in Weft all blocks are alike", IsNone},
    {"layer_types", "expected full_attention in every block, as Weft has it", IsFullAttention},
    {"sliding_window", "expected none: in Weft a token sees all that come before it", IsNone},
    {"use_sliding_window", "expected false: in Weft a token sees all that come before it", IsFalse},
    {"attention_chunk_size", "expected none: in Weft a token sees all that come before it", IsNone},
    {"kv_sharing_modes", "expected none: in Weft each block has keys and values of its own", IsNone},
    {"quantization_config", "expected none: Weft reads weights that are not quantized", IsNone},
    {"compression_config", "expected none: Weft reads weights that are not quantized", IsNone},

    {"architectures", kRecord},
    {"name_or_path", kRecord},
    {"transformers_version", kRecord},
    {"finetuning_task", kRecord},
    {"task_specific_params", kGeneration},
    {"return_dict", kOutputs},
    {"output_hidden_states", kOutputs},
    {"output_attentions", kOutputs},
    {"tie_last_hidden_states", kOutputs},
    {"torchscript", kOutputs},
    {"dtype", kStorage},
    {"torch_dtype", kStorage},
    {"use_bfloat16", kStorage},
    {"use_cache", kMemory},
    {"chunk_size_feed_forward", kMemory},
    {"gradient_checkpointing", kMemory},
    {"attn_implementation", "all of them compute the same attention"},
    {"experts_implementation", "these families have no experts"},
    {"xla_device", "it is for TPUs"},
    {"tf_legacy_loss", "it is for TensorFlow"},
    {"is_decoder", kDecoder},
    {"cross_attention_hidden_size", kDecoder},
    {"tie_encoder_decoder", kDecoder},
    {"id2label", kLabels},
    {"label2id", kLabels},
    {"num_labels", kLabels},
    {"problem_type", kLabels},
    {"classifier_dropout", kLabels},
    {"tokenizer_class", kTokens},
    {"prefix", kTokens},
    {"bos_token_id", kTokens},
    {"eos_token_id", kTokens},
    {"pad_token_id", kTokens},
    {"sep_token_id", kTokens},
    {"decoder_start_token_id", kTokens},
    {"initializer_range", "it is for random values"},

    {"max_length", kGeneration},
    {"min_length", kGeneration},
    {"do_sample", kGeneration},
    {"early_stopping", kGeneration},
    {"num_beams", kGeneration},
    {"num_beam_groups", kGeneration},
    {"diversity_penalty", kGeneration},
    {"temperature", kGeneration},
    {"top_k", kGeneration},
    {"top_p", kGeneration},
    {"typical_p", kGeneration},
    {"repetition_penalty", kGeneration},
    {"length_penalty", kGeneration},
    {"no_repeat_ngram_size", kGeneration},
    {"encoder_no_repeat_ngram_size", kGeneration},
    {"encoder_repetition_penalty", kGeneration},
    {"bad_words_ids", kGeneration},
    {"num_return_sequences", kGeneration},
    {"output_scores", kGeneration},
    {"return_dict_in_generate", kGeneration},
    {"forced_bos_token_id", kGeneration},
    {"forced_eos_token_id", kGeneration},
    {"remove_invalid_values", kGeneration},
    {"exponential_decay_length_penalty", kGeneration},
    {"suppress_tokens", kGeneration},
    {"begin_suppress_tokens", kGeneration},
    {"epsilon_cutoff", kGeneration},
    {"eta_cutoff", kGeneration},
    {"num_assistant_tokens", kGeneration},
    {"num_assistant_tokens_schedule", kGeneration},
    {"assistant_confidence_threshold", kGeneration},
    {"assistant_lookbehind", kGeneration},
    {"target_lookbehind", kGeneration},
};

}  // namespace

std::span<const HfKey> HfGenericKeys() { return kGeneric; }

const HfKey* FindHfKey(std::string_view key, const HfFamily& family) {
  if (family.Compares(key)) return nullptr;
  for (std::span<const HfKey> keys : {family.keys, HfGenericKeys()})
    for (const HfKey& row : keys)
      if (row.key == key) return &row;
  return nullptr;
}

}  // namespace weft
