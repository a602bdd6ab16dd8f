// Sampler: draws one token from logits, as a function of the seed and of the index of the draw.
//
//   Sampler sampler({.temperature = 0.8, .top_k = 40, .seed = 7});
//   absl::StatusOr<int32_t> token = sampler.Pick(logits, index);
//
// The same seed gives the same text on any mesh, although another order of sums changes the last bits of logits. Two
// measures achieve this:
//
// - A token is drawn by the Gumbel-max trick: the token with the largest logit / temperature + g. Here g is a function
//   of (seed, index, token) and does not depend on the mesh. If logits differ by e, the draw changes only if the two
//   largest sums are closer than 2 e / temperature. This happens with about that probability, however many tokens there
//   are. No other way to draw can do better than half of it, because the distributions themselves differ by e. With
//   f32, e is about 1e-6, so one draw in hundreds of thousands changes. With precision.compute=f64 it is one in 10^14.
//   Inverting a cumulative sum would be worse, because the shifts of all its steps add up.
// - Logits are rounded to multiples of 2^-12 before draws compare them. Tokens that are equally likely (twins in the
//   table, for example) stay so. If top_k or top_p must prefer one of them, it takes the lowest, and not the one that
//   the last bits favor. At temperature 1, rounding changes no probability by more than one part in 4000.
//
// Greedy sampling draws nothing. It takes the largest logit as computed, and the lowest token of equal ones. Two meshes
// may choose differently if the two largest logits are closer than the last bits of sums.
#pragma once
#include <array>
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct SamplerOptions {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // draw only from this many of the most likely tokens; 0: all
  double top_p = 1;        // of these, keep the fewest most likely ones that make up this share; in (0, 1]
  bool greedy = false;     // take the largest logit; the other options do not count
  uint64_t seed = 1;
};

class Sampler {
 public:
  // Samplers with another `sample` draw other random numbers. Sample i is the same however many there are.
  explicit Sampler(const SamplerOptions& options, int64_t sample = 0);
  // Returns a token. `index` counts the draws of a text, from 0. Returns kAborted if a logit is not finite.
  absl::StatusOr<int32_t> Pick(std::span<const double> logits, int64_t index);

 private:
  void Round(std::span<const double> logits, double largest);
  void KeepLikely();
  uint64_t Bits(int32_t token, int64_t index);
  int32_t Draw(int64_t index);

  SamplerOptions options_;
  uint64_t key_;
  std::vector<double> logits_;  // rounded, minus the largest
  std::vector<int32_t> kept_;   // tokens that may be drawn
  // The latest Philox block of a draw: of tokens 2 * block_ and 2 * block_ + 1.
  int32_t block_ = -1;
  std::array<uint32_t, 4> words_{};
};

}  // namespace weft
