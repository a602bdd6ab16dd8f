// TokenSource: where the sequences of training come from. A token stream, synthetic tokens and a mixture of sources are
// implementations; what lies in files is told apart by data_format.h.
//
// Legend: C the context.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weft/train/config/config.h"
#include "weft/train/data/source/token_stream.h"

namespace weft {

inline constexpr int32_t kIgnoredTarget = -100;  // adds nothing to loss, count or gradient

// The caller's memory for some rows: [rows, C] each.
struct BatchSpan {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;  // the token that follows, or kIgnoredTarget
};

// Where a run stands in the data, so that it resumes there even if the global batch has changed since.
struct DataPosition {
  int64_t step = 0, sequences = 0;               // this many, in steps [0, step)
  std::array<int64_t, kMaxSources> of_source{};  // how many of them came from each source of a mixture
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Writes the sequence at `at`, which is row `row` of its step's global batch, to one row: [C]. Returns the number of
  // targets that are not ignored. Allocates nothing. Throws Error for a token that the model does not have.
  virtual int64_t Fill(const DataPosition& at, int64_t row, BatchSpan out) const = 0;
  // Moves `at` past so many sequences, in time proportional to them at most. Allocates nothing.
  virtual void Skip(int64_t sequences, DataPosition& at) const { at.sequences += sequences; }
  // How many sources `DataPosition::of_source` counts; 0: this is no mixture.
  virtual size_t num_sources() const { return 0; }
  // What ranks must have alike apart from the tokens, such as the shares of a mixture.
  virtual uint64_t Hash() const { return 0; }
};

// Fills one row from `begin` of the stream on, padded behind its last token, and returns the number of targets. Throws
// Error for a token that is not below `vocab`.
int64_t FillRow(const TokenStream& stream, int64_t begin, int64_t vocab, BatchSpan out);
// What an error says of the token `i`, which is not below `vocab`.
std::string TokenFault(const TokenStream& stream, int64_t i, int64_t vocab);

// A number below n from 64 random bits: the upper half of their product. The bias is n / 2^64.
int64_t Below(int64_t n, uint64_t bits);

}  // namespace weft
