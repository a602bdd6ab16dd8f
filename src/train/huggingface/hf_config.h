// The config.json of a published model, compared with ours key by key. A key is one of these:
//
//   compared   our model has it too: a number, a word or a size (hf_names.h), rotary positions, tied embeddings
//   fixed      of another value than Weft's it would change the numbers (hf_keys.h)
//   neutral    it changes none (hf_keys.h), or begins with "_"
//   unknown    refused by name, because it may change the numbers; model.init_neutral lists those that do not
//
// A compared key that is absent has transformers' default. Sizes that are absent are left to the weights' shapes.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "weft/train/config/config.h"
#include "weft/train/huggingface/hf_names.h"

namespace weft {

// `same_head` returns whether the weights hold the token embedding as their head too, so that tied and untied compute
// the same. Errors say which key, what was expected, what it is, and what to do.
absl::Status CheckHfConfig(const nlohmann::json& settings, const HfFamily& family, const ModelConfig& model,
                           const std::function<bool()>& same_head);

}  // namespace weft
