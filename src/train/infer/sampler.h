// Sampler: one token from logits, as a function of the seed and the token's place in the text.
//
//   Sampler sampler({.temperature = 0.8, .top_k = 40, .seed = 7});
//   absl::StatusOr<int32_t> token = sampler.Pick(logits, index);
//
// The same seed gives the same text on any mesh, although another order of sums leaves other last bits in the logits.
// Two things see to that:
//
// - A token is drawn by the Gumbel-max trick: the largest of logit / temperature + g, where g, a function of (seed,
//   index, token), knows nothing of the mesh. Logits that are off by e change the draw only where the two largest sums
//   are nearer than 2 e / temperature, which happens with about that probability, however many tokens there are; no way
//   to draw can do better than half of it (the distributions themselves differ by e). For f32, whose e is some 1e-6,
//   that is a flip in hundreds of thousands of tokens; for precision.compute=f64, one in 10^14. The inverse of a
//   cumulative sum would flip by the sum of the shifts of all its steps.
// - Logits are rounded to multiples of 2^-12 before draws compare them: tokens that are equally likely (twins in the
//   table, for example) stay so, and where top_k and top_p must prefer one it is the lowest, not the one that last bits
//   favour. At temperature 1 it changes no probability by more than one part in 4000.
//
// Greedy draws nothing. It takes the largest logit as computed, of equal ones the lowest token. Two meshes may differ
// where the two largest logits are nearer than the last bits of sums.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

struct SamplerOptions {
  double temperature = 1;  // 0: greedy
  int64_t top_k = 0;       // the most likely ones alone; 0: all
  double top_p = 1;        // of these, as few of the most likely ones as make up this share; in (0, 1]
  bool greedy = false;     // the largest logit; the rest does not count
  uint64_t seed = 1;
};

class Sampler {
 public:
  explicit Sampler(const SamplerOptions& options);
  // Fails where a logit is not finite.
  absl::StatusOr<int32_t> Pick(std::span<const double> logits, int64_t index);

 private:
  void Round(std::span<const double> logits);
  void KeepLikely();
  double Score(int32_t token, int64_t index) const;

  SamplerOptions options_;
  uint64_t key_;
  std::vector<double> logits_;  // rounded, less the largest
  std::vector<int32_t> kept_;   // tokens that may be drawn
};

}  // namespace weft
