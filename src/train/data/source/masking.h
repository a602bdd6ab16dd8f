// Masking: rows for a model that learns to give masked tokens (Devlin et al. 2019, section 3.1). 15 % of the tokens of
// a row are targets, each its own. Of those, eight in ten become the mask token, one in ten any token, and one in ten
// stay.
//
// Which ones is a function of (seed, step, row) in training and of (seed, window) in evaluation, by the random contract
// (core/base/rng.h): the same on every mesh.
#pragma once
#include <cstdint>
#include <span>

namespace weft {

class Masking {
 public:
  // `mask`: the number of the mask token. Other tokens that stand in for one are below `kinds`.
  Masking(uint64_t seed, int32_t mask, int64_t kinds);

  int32_t mask() const { return mask_; }
  // Changes some tokens of a row, and sets its targets: the token that was there, or kIgnoredTarget. Returns their
  // number.
  int64_t Train(int64_t step, int64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const;
  int64_t Evaluate(int64_t window, std::span<int32_t> tokens, std::span<int32_t> targets) const;

 private:
  int64_t Apply(uint64_t key, uint64_t step, uint64_t row, std::span<int32_t> tokens, std::span<int32_t> targets) const;

  uint64_t train_key_, eval_key_;
  int32_t mask_;
  int64_t kinds_;
};

}  // namespace weft
