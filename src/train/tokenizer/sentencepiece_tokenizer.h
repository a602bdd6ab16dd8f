// Tokenizes with sentencepiece models, and trains such models on text.
//
// Each line, including its newline, is encoded on its own, and a line of more than 16 KiB in parts. So a text of any
// size can be encoded in blocks, and its tokens do not depend on the block boundaries.
#pragma once
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

// Builds a tokenizer from the bytes of a .model file. The settings decide whether every text begins with the piece <s>,
// as in transformers' LlamaTokenizer: by add_bos_token if it is set, otherwise by tokenizer_class.
absl::StatusOr<Tokenizer> SentencePieceTokenizer(TokenizerFiles files);

// Returns the next part of a text in whole UTF-8 code points, or "" at its end.
using NextText = std::function<absl::StatusOr<std::string_view>()>;

// Trains a model of `vocab` pieces on lines spread over the text. They make up the fraction `share` of its bytes.
// Returns the bytes of a lossless .model file: it neither normalizes nor trims, and text without a piece becomes bytes.
absl::StatusOr<std::string> LearnSentencePiece(const NextText& next, int64_t vocab, double share);

}  // namespace weft
