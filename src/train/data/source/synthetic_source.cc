#include "weft/train/data/source/synthetic_source.h"

#include "weft/core/base/rng.h"

namespace weft {

SyntheticSource::SyntheticSource(int64_t context, int64_t vocab, int64_t seed)
    : context_(context), vocab_(vocab), key_(RandomKey(uint64_t(seed), RandomPhase::kData, "synthetic", 0)) {}

int64_t SyntheticSource::Fill(const DataPosition& at, int64_t row, BatchSpan out) const {
  int64_t blocks = (context_ + 1 + 3) / 4, i = 0;  // i: position in the sequence of C + 1 tokens
  for (int64_t block = 0; block < blocks; block++) {
    for (uint32_t bits : Philox(key_, uint64_t(at.step), uint64_t(row * blocks + block))) {
      auto token = int32_t(Below(vocab_, uint64_t(bits) << 32));
      if (i < context_) out.tokens[size_t(i)] = token;
      if (i > 0 && i <= context_) out.targets[size_t(i - 1)] = token;
      i++;
    }
  }
  return context_;
}

}  // namespace weft
