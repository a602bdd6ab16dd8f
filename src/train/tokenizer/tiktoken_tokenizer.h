// The lines of base64 and rank in which tiktoken keeps byte pairs, as Llama 3's own tokenizer.model.
#pragma once
#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// The lines hold neither a pattern nor special tokens. 128000 of them are taken for Llama 3's: its pattern, 256 special
// ids after them, and <|begin_of_text|> before every text. InvalidArgument says what is wrong with other ones.
absl::StatusOr<Tokenizer> TiktokenTokenizer(TokenizerFiles files);

}  // namespace weft
