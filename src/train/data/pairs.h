// Pairs: a source and the text to be written from it (train.objective: pairs). A row of a batch has C tokens, the first
// S of them for the source:
//
//   source ... end pad pad | pad target ... end pad        ("pad" begins the target, too)
//
// A pair in memory is such a row and one token more, so that each token of a row has a token after it.
#pragma once
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/train/data/source/token_source.h"
#include "weft/train/tokenizer/tokenizer.h"

namespace weft {

struct Documents;

struct PairLayout {
  int64_t source = 0, context = 0;  // S, C
  int32_t end = 0, pad = 0;         // ids

  int64_t size() const { return context + 1; }  // tokens of a pair in memory
  int64_t kinds() const { return int64_t(pad) + 1; }
};
// Returns S of a model whose rows are pairs.
int64_t SourceContext(const ModelConfig& model);
// `kinds` is the number of the tokenizer's kinds of token, and `end` its end of text; without one it is the id `kinds`.
// The next id is the padding's.
PairLayout PairLayoutOf(const ModelConfig& model, int64_t kinds, std::optional<int32_t> end);

// Returns the first S + 1 tokens of a row: a source, its end, padding, and the token with which the target begins.
// Returns kOutOfRange if the source is too long.
absl::StatusOr<std::vector<int32_t>> EncodeSource(const Tokenizer& tokenizer, std::string_view source,
                                                  const PairLayout& layout);
// Returns the tokens of all pairs, PairLayout::size() for each. Each document has both texts of a pair, as
// DocumentReader reads them. Errors name the pair that does not fit.
absl::StatusOr<std::vector<int32_t>> EncodePairs(const Tokenizer& tokenizer, const Documents& documents,
                                                 const PairLayout& layout);

// Makes kIgnoredTarget of the targets of a row that are no tokens of the text or its end: [C]. Returns how many are
// left.
int64_t KeepTargets(const PairLayout& layout, std::span<int32_t> targets);

}  // namespace weft
