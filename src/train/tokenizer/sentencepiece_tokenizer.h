// The pieces of sentencepiece models as tokens, and learning such models from text.
//
// Each line, its newline included, is encoded on its own, and a line of more than 16 KiB in parts: a text of any size
// can be encoded in blocks, and the tokens do not depend on how it is cut into these.
#pragma once
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// Of the bytes of a .model file. Every text begins with its piece <s> if the settings beside it say so, as
// transformers' LlamaTokenizer reads them: by add_bos_token, or without it by their class.
absl::StatusOr<Tokenizer> SentencePieceTokenizer(TokenizerFiles files);

// Gives the next part of a text, whole code points of UTF-8; "" at its end.
using NextText = std::function<absl::StatusOr<std::string_view>()>;

// Learns `vocab` pieces from lines of the text, spread over it, that are `share` of its bytes. Gives the bytes of a
// .model file that loses nothing: it neither normalizes nor trims, and what it has no piece for becomes bytes.
absl::StatusOr<std::string> LearnSentencePiece(const NextText& next, int64_t vocab, double share);

}  // namespace weft
