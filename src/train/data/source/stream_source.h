// StreamSource: sequences of a token stream, either at random offsets or in consecutive windows that start over at the
// end.
#pragma once
#include "weft/train/data/source/token_source.h"

namespace weft {

class StreamSource : public TokenSource {
 public:
  struct Options {
    int64_t context = 0, vocab = 0;
    bool shuffle = true;  // true: random offsets from `key`, step and row; false: windows, by the sequences so far
    uint64_t key = 0;
    int64_t unit = 0;  // offsets are multiples of it, and windows begin there; 0: any offset
  };
  // Requires a stream of at least context + 1 tokens.
  StreamSource(TokenStream stream, const Options& options) : stream_(std::move(stream)), options_(options) {}

  int64_t Fill(const DataPosition& at, int64_t row, BatchSpan out) const override;
  uint64_t Hash() const override { return uint64_t(stream_.size()); }

 private:
  // Returns the offset in the stream of a sequence of C + 1 tokens.
  int64_t OffsetOf(const DataPosition& at, int64_t row) const;

  TokenStream stream_;
  Options options_;
};

}  // namespace weft
