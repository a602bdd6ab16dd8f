// Masking: prepares rows for a model that predicts masked tokens (Devlin et al. 2019, section 3.1). 15 % of the tokens
// of a row are targets; each must be predicted at its own position. 80 % of them become the mask token, 10 % a random
// token, and 10 % stay.
//
// The choice depends on (seed, step, row) in training and on (seed, window) in evaluation, by the random contract
// (core/base/rng.h). It is the same on every mesh.
#pragma once
#include <cstdint>
#include <span>

namespace weft {

class Masking {
 public:
  // `mask` is the id of the mask token. Random replacement tokens are below `kinds`.
  Masking(uint64_t seed, int32_t mask, int64_t kinds);

  int32_t mask() const { return mask_; }
  // Replaces some tokens of a row and sets its targets: the original token, or kIgnoredTarget. Returns the number of
  // targets.
  int64_t Train(int64_t step, int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const;
  int64_t Evaluate(int64_t window, std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  int64_t Apply(uint64_t key, uint64_t step, uint64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const;

  uint64_t train_key_, eval_key_;
  int32_t mask_;
  int64_t kinds_;
};

}  // namespace weft
