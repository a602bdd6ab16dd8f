// The tokenizer that a checkpoint keeps next to its weights.
#pragma once
#include <optional>

#include "weft/train/checkpoint/checkpoint.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// Returns nullopt if the data of the run had no tokenizer, and kInvalidArgument with the name of a file that is wrong.
absl::StatusOr<std::optional<Tokenizer>> SavedTokenizer(const Checkpoint& checkpoint);

}  // namespace weft
