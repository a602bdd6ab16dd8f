// BPE tokenizers in the style of GPT-2 and Llama 3. They find added tokens first, split the text between them into
// words with patterns, and encode each word with byte pairs.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "weft/train/tokenizer/added_tokens.h"
#include "weft/train/tokenizer/byte_pairs.h"
#include "weft/train/tokenizer/regex.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct BpeModel {
  // Splits each piece of a text into the matches of a pattern and the text between them.
  struct Split {
    std::optional<Regex> pattern;  // none: the piece is not split
    bool adds_space = false;       // whether to put a space first before a piece that begins with none
  };

  std::vector<std::string> texts;  // the bytes of each id
  BytePairs pairs;
  std::array<AddedTokens, 2> added;  // the second set is searched in the text that the first leaves
  std::vector<bool> is_added;        // by id
  std::vector<Split> splits;         // applied in this order
  std::vector<int32_t> begin;        // ids that every text begins with
  std::optional<int32_t> end_of_text, mask;
};

// `files` holds the contents of the files that `model` was read from.
Tokenizer BpeTokenizer(TokenizerKind kind, TokenizerFiles files, BpeModel model);

// The patterns of GPT-2 and of Llama 3.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;

}  // namespace weft
