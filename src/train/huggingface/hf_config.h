// Compares the config.json of a published model with our config, key by key. A key is one of these:
//
//   compared   our model has it too: a number, a string or a size (hf_names.h), rotary positions, tied embeddings
//   fixed      any value other than Weft's would change the results (hf_keys.h)
//   neutral    it affects no results (hf_keys.h), or begins with "_"
//   unknown    refused by name, because it may affect the results; model.init_neutral lists exceptions
//
// A compared key that is absent has transformers' default. Absent sizes are determined by the shapes of the weights.
#pragma once
#include <functional>
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "weft/train/config/config.h"
#include "weft/train/huggingface/hf_names.h"

namespace weft {

// `same_head` returns whether the weights contain the token embedding as their head too, so that tied and untied models
// compute the same. Errors name the key, the expected and the given value, and how to fix it.
absl::Status CheckHfConfig(const nlohmann::json& settings, const HfFamily& family, const ModelConfig& model,
                           const std::function<bool()>& same_head);

}  // namespace weft
