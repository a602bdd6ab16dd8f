#include "weft/train/data/source/masking.h"

#include "weft/core/base/rng.h"
#include "weft/train/data/source/token_source.h"

namespace weft {
namespace {
constexpr double kChosen = 0.15, kMasked = 0.8, kReplaced = 0.1;
}  // namespace

Masking::Masking(uint64_t seed, int32_t mask, int64_t kinds)
    : train_key_(RandomKey(seed, RandomPhase::kData, "mask", 0)),
      eval_key_(RandomKey(seed, RandomPhase::kEval, "mask", 0)),
      mask_(mask),
      kinds_(kinds) {}

int64_t Masking::Train(int64_t step, int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  return Apply(train_key_, uint64_t(step), uint64_t(row), tokens, targets);
}

int64_t Masking::Evaluate(int64_t window, std::span<int32_t> tokens, std::span<int32_t> targets) const {
  return Apply(eval_key_, 0, uint64_t(window), tokens, targets);
}

int64_t Masking::Apply(uint64_t key, uint64_t step, uint64_t row, std::span<int32_t> tokens,
                       std::span<int32_t> targets) const {
  int64_t count = 0;
  for (size_t i = 0; i < tokens.size(); i++) {
    std::array<uint32_t, 4> bits = Philox(key, step, row * tokens.size() + i);
    bool chosen = UniformFromBits(bits[0]) < kChosen;
    targets[i] = chosen ? tokens[i] : kIgnoredTarget;
    if (!chosen) continue;
    count++;
    double kind = UniformFromBits(bits[1]);
    if (kind < kMasked)
      tokens[i] = mask_;
    else if (kind < kMasked + kReplaced)
      tokens[i] = int32_t(double(kinds_) * UniformFromBits(bits[2]));
  }
  return count;
}

}  // namespace weft
