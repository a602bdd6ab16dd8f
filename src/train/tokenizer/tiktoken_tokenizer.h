// Reads tiktoken's format, lines of base64 and rank, as in the tokenizer.model of Llama 3's own release.
#pragma once
#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// The format holds neither a pattern nor special tokens. A file of 128000 lines is taken for Llama 3's: it gets Llama
// 3's pattern, 256 special ids after the lines, and <|begin_of_text|> before every text. Returns InvalidArgument for
// any other file.
absl::StatusOr<Tokenizer> TiktokenTokenizer(TokenizerFiles files);

}  // namespace weft
