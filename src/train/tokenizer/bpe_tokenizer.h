// Tokenizers of byte pairs, as GPT-2 and Llama 3 have them: added tokens are found first, patterns cut the text between
// them into words, and byte pairs encode each word.
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
  // Cuts each piece of a text into the matches of a pattern and what lies between them.
  struct Split {
    std::optional<Regex> pattern;  // none: the piece stays whole
    bool adds_space = false;       // at first, before a piece that begins with none
  };

  std::vector<std::string> texts;  // the bytes that each id stands for
  BytePairs pairs;
  std::array<AddedTokens, 2> added;  // the second is looked for in what the first leaves
  std::vector<bool> is_added;        // by id
  std::vector<Split> splits;         // one after the other
  std::vector<int32_t> begin;        // ids that every text begins with
  std::optional<int32_t> end_of_text;
};

// `files` are those that the model was read from.
Tokenizer BpeTokenizer(TokenizerKind kind, TokenizerFiles files, BpeModel model);

// The pattern of GPT-2, and that of Llama 3.
extern const char* const kGpt2Pattern;
extern const char* const kLlama3Pattern;

}  // namespace weft
