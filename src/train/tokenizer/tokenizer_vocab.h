// Reads the vocabulary of a tokenizer.json: the parts `model` and `added_tokens`.
#pragma once
#include <nlohmann/json.hpp>

#include "absl/status/status.h"
#include "weft/train/tokenizer/bpe_tokenizer.h"

namespace weft {

// Fills the vocabulary, merges and added tokens of `bpe`. Returns the same errors as HuggingFaceTokenizer.
absl::Status ReadTokenizerVocab(const nlohmann::json& model, const nlohmann::json& added_tokens, BpeModel& bpe);

}  // namespace weft
