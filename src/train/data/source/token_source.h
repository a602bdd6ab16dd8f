// TokenSource: the interface of the sources of training sequences. Implementations are token streams, synthetic tokens
// and mixtures. data_format.h tells file formats apart.
//
// Legend: C is the context.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <string>

#include "weft/train/config/config.h"
#include "weft/train/data/source/token_stream.h"

namespace weft {

inline constexpr int32_t kIgnoredTarget = -100;  // contributes nothing to loss, count or gradient

// The caller's memory for some rows; each span is [rows, C].
struct BatchSpan {
  std::span<int32_t> tokens;
  std::span<int32_t> targets;  // the next token, or kIgnoredTarget
};

// The position of a run in the data. It lets a run resume there even with another global batch.
struct DataPosition {
  int64_t step = 0, sequences = 0;               // number of sequences in steps [0, step)
  std::array<int64_t, kMaxSources> of_source{};  // how many of them came from each source of a mixture
};

class TokenSource {
 public:
  virtual ~TokenSource() = default;
  // Writes the sequence at `at` to one row: [C]. `row` is its index in the global batch of its step. Returns the number
  // of targets that are not ignored. Allocates nothing. Throws Error if a token is not below the vocabulary or cannot
  // be read.
  virtual int64_t Fill(const DataPosition& at, int64_t row, BatchSpan out) const = 0;
  // Moves `at` forward by `sequences`. Takes at most time proportional to their number. Allocates nothing.
  virtual void Skip(int64_t sequences, DataPosition& at) const { at.sequences += sequences; }
  // Returns the number of sources that DataPosition::of_source counts, or 0 if this is not a mixture.
  virtual size_t num_sources() const { return 0; }
  // Returns a hash of whatever ranks must agree on besides the tokens, such as the shares of a mixture.
  virtual uint64_t Hash() const { return 0; }
};

// Fills one row with the tokens of the stream from `begin` on, pads it after the last token, and returns the number of
// targets. Throws Error if a token is not below `vocab` or cannot be read.
int64_t FillRow(const TokenStream& stream, int64_t begin, int64_t vocab, BatchSpan out);
// Returns an error message about token `i`, which is not below `vocab`.
std::string TokenFault(const TokenStream& stream, int64_t i, int64_t vocab);

// Maps 64 random bits to a number below n: the upper half of bits * n. The bias is n / 2^64.
int64_t Below(int64_t n, uint64_t bits);

}  // namespace weft
