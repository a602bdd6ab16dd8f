// Choices: multiple-choice items in HellaSwag's format, and the tokens of their endings.
//
//   absl::StatusOr<std::vector<ChoiceItem>> items = ReadChoices("hellaswag_val.jsonl");
//   absl::StatusOr<std::vector<EndingTokens>> endings = EncodeChoices(*items, tokenizer, context, path);
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct ChoiceItem {
  int64_t line = 0;  // in the file, from 1
  std::string context;
  std::vector<std::string> endings;
  int64_t label = 0;  // the index of the right ending
};

// Reads a file of JSON lines {"ctx": "...", "endings": ["...", ...], "label": 0}. The label may be a text, "0". Other
// fields and blank lines are ignored. The file may be compressed (BlockReader). Errors name the file and the line.
absl::StatusOr<std::vector<ChoiceItem>> ReadChoices(const std::string& path);

struct EndingTokens {
  std::vector<int32_t> tokens;  // of the context and the ending; at most one more than the context of the model
  int64_t count = 0;            // how many of them, at the end, are the ending's
};

// Returns the tokens of all endings of all items, in order. An ending follows its context after a space. As in
// lm-evaluation-harness, white space at the end of the context belongs to the ending, and the tokens of the ending are
// those of context and ending together, without as many at the beginning as the context has by itself. The text begins
// with the tokens of Tokenizer::begin. If the context is too long, its last tokens are kept. Returns kInvalidArgument
// if a text cannot be encoded, or if an ending has no token or more than `context`; errors name `path` and the line.
absl::StatusOr<std::vector<EndingTokens>> EncodeChoices(const std::vector<ChoiceItem>& items,
                                                        const Tokenizer& tokenizer, int64_t context,
                                                        const std::string& path);

}  // namespace weft
