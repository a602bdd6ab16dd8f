// Tokenizers in files: which kind of tokenizer a file holds, and which file of a published folder is the tokenizer's.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// `kind` is the one that the user named; kHuggingFace takes a folder and any published file. Errors name the file.
absl::StatusOr<Tokenizer> OpenTokenizer(TokenizerKind kind, const std::string& path);

// The folder of published weights, which `init` is or is in, if it has a tokenizer's file.
std::optional<std::string> FolderWithTokenizer(const std::string& init);

}  // namespace weft
