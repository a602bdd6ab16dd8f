// The vocabulary of a tokenizer.json: the parts `model` and `added_tokens`.
#pragma once
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"

namespace weft {

// Fills what a model has learnt, and its added tokens. Errors as HuggingFaceTokenizer has them.
absl::Status ReadTokenizerVocab(const nlohmann::json& model, const nlohmann::json& added_tokens, BpeModel& bpe);

}  // namespace weft
