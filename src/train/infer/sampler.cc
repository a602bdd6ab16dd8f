#include "weft/train/infer/sampler.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "fmt/format.h"
#include "weft/core/base/rng.h"

namespace weft {

Sampler::Sampler(const SamplerOptions& options, int64_t sample)
    : options_(options), key_(RandomKey(options.seed, RandomPhase::kGenerate, "sampler", uint64_t(sample))) {}

absl::StatusOr<int32_t> Sampler::Pick(std::span<const double> logits, int64_t index) {
  bool finite = std::all_of(logits.begin(), logits.end(), [](double logit) { return std::isfinite(logit); });
  if (logits.empty() || !finite)
    return absl::AbortedError(
        fmt::format("weft: a logit of token {} of the text is not finite; the weights, or what precision.compute makes "
                    "of them, are of no use; executor=interpret names the first op that makes a NaN",
                    index));
  bool greedy = options_.greedy || options_.temperature == 0;
  // The first of equal logits, so the lowest token.
  if (greedy) return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
  Round(logits);
  KeepLikely();
  int32_t best = kept_[0];
  double most = Score(best, index);
  for (int32_t token : kept_) {
    double score = Score(token, index);
    if (score < most || (score == most && token >= best)) continue;
    best = token;
    most = score;
  }
  return best;
}

void Sampler::Round(std::span<const double> logits) {
  constexpr double kGrid = 0x1p-12;
  logits_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); i++) logits_[i] = std::nearbyint(logits[i] / kGrid) * kGrid;
  double most = *std::max_element(logits_.begin(), logits_.end());
  for (double& logit : logits_) logit -= most;
}

void Sampler::KeepLikely() {
  kept_.resize(logits_.size());
  std::iota(kept_.begin(), kept_.end(), 0);
  bool all = options_.top_k == 0 || options_.top_k >= int64_t(kept_.size());
  if (all && options_.top_p == 1) return;
  auto likelier = [&](int32_t a, int32_t b) {
    double of_a = logits_[size_t(a)], of_b = logits_[size_t(b)];
    return of_a != of_b ? of_a > of_b : a < b;
  };
  auto count = all ? std::ptrdiff_t(kept_.size()) : std::ptrdiff_t(options_.top_k);
  std::partial_sort(kept_.begin(), kept_.begin() + count, kept_.end(), likelier);
  kept_.resize(size_t(count));
  if (options_.top_p == 1) return;
  auto weight = [&](int32_t token) { return std::exp(logits_[size_t(token)] / options_.temperature); };
  double total = 0, sum = 0;
  for (int32_t token : kept_) total += weight(token);
  size_t n = 0;
  while (n < kept_.size() && sum < options_.top_p * total) sum += weight(kept_[n++]);
  kept_.resize(n);
}

// Returns logit / temperature + g. Two consecutive tokens share one Philox block. 52 bits of it per token make a number
// in (0, 1) that is exact in f64.
double Sampler::Score(int32_t token, int64_t index) const {
  std::array<uint32_t, 4> words = Philox(key_, uint64_t(index), uint64_t(token) / 2);
  size_t lane = size_t(token % 2) * 2;
  uint64_t bits = (uint64_t(words[lane]) << 32 | words[lane + 1]) >> 12;
  double uniform = (double(bits) + 0.5) * 0x1p-52;
  return logits_[size_t(token)] / options_.temperature - std::log(-std::log(uniform));
}

}  // namespace weft
