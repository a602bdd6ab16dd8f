// Opens tokenizer files. Detects the kind of a file, and picks the tokenizer's file in a folder of a published model.
#pragma once
#include <optional>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// `kind` is the kind that the user named. kHuggingFace accepts a folder and every published kind of file. Errors name
// the file.
absl::StatusOr<Tokenizer> OpenTokenizer(TokenizerKind kind, const std::string& path);

// `init` is a folder of published weights or a file in one. Returns that folder if it contains a tokenizer file.
std::optional<std::string> FolderWithTokenizer(const std::string& init);

}  // namespace weft
