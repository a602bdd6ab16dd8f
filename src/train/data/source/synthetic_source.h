// SyntheticSource: random tokens, without a file.
#pragma once
#include "weft/train/data/source/token_source.h"

namespace weft {

class SyntheticSource : public TokenSource {
 public:
  // Draws tokens below `vocab` from the seed, step, row and position.
  SyntheticSource(int64_t context, int64_t vocab, int64_t seed);

  int64_t Fill(const DataPosition& at, int64_t row, BatchSpan out) const override;

 private:
  int64_t context_, vocab_;
  uint64_t key_;
};

}  // namespace weft
