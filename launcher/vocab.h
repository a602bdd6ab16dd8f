// The vocabulary of a config whose text may be missing, for planning and benchmarks.
#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "weft/train/config/config.h"

namespace weft {

// Fills model.vocab from the tokenizer or, with chars, from the text. If that cannot be read and model.vocab is not
// given, assumes a size and adds a note. Token shards without a tokenizer file do not contain a vocabulary, so an error
// asks for model.vocab.
absl::Status FillVocab(Config& config, std::vector<std::string>& notes);

}  // namespace weft
