#include "weft/train/infer/sampler.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

#include "fmt/format.h"
#include "weft/core/base/rng.h"

namespace weft {

Sampler::Sampler(const SamplerOptions& options, int64_t sample)
    : options_(options), key_(RandomKey(options.seed, RandomPhase::kGenerate, "sampler", uint64_t(sample))) {}

namespace {

struct Largest {
  int32_t token;  // the lowest of the largest logits
  bool finite;    // whether all logits are
};
// Several running results, which the processor advances at the same time.
Largest LargestOf(std::span<const double> logits) {
  constexpr size_t kLanes = 8;
  std::array<double, kLanes> most;
  std::array<bool, kLanes> bad{};
  most.fill(logits[0]);
  auto add = [&](size_t lane, double logit) {
    bad[lane] |= !(std::abs(logit) <= std::numeric_limits<double>::max());
    most[lane] = logit > most[lane] ? logit : most[lane];
  };
  size_t i = 0;
  for (; i + kLanes <= logits.size(); i += kLanes)
    for (size_t lane = 0; lane < kLanes; lane++) add(lane, logits[i + lane]);
  for (; i < logits.size(); i++) add(0, logits[i]);
  double largest = *std::max_element(most.begin(), most.end());
  return {int32_t(std::find(logits.begin(), logits.end(), largest) - logits.begin()),
          std::find(bad.begin(), bad.end(), true) == bad.end()};
}

// Returns x, rounded to an integer, to even if it lies between two. Adding 1.5 x 2^52 leaves no bit for a fraction. Up
// to 2^51 this is std::nearbyint, which is a function call on some processors; larger values are rounded by it.
double Rounded(double x) {
  constexpr double kInteger = 0x1.8p52;
  return std::abs(x) < 0x1p51 ? (x + kInteger) - kInteger : std::nearbyint(x);
}

}  // namespace

absl::StatusOr<int32_t> Sampler::Pick(std::span<const double> logits, int64_t index) {
  Largest largest = logits.empty() ? Largest{0, false} : LargestOf(logits);
  if (!largest.finite)
    return absl::AbortedError(
        fmt::format("weft: a logit of token {} of the text is not finite; the weights, or what precision.compute makes "
                    "of them, are of no use; executor=interpret names the first op that makes a NaN",
                    index));
  bool greedy = options_.greedy || options_.temperature == 0;
  if (greedy) return largest.token;
  Round(logits, logits[size_t(largest.token)]);
  KeepLikely();
  return Draw(index);
}

void Sampler::Round(std::span<const double> logits, double largest) {
  constexpr double kGrid = 0x1p-12;
  double most = Rounded(largest / kGrid) * kGrid;
  logits_.resize(logits.size());
  for (size_t i = 0; i < logits.size(); i++) logits_[i] = Rounded(logits[i] / kGrid) * kGrid - most;
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

// Returns 52 random bits of a token. Two consecutive tokens share one Philox block.
uint64_t Sampler::Bits(int32_t token, int64_t index) {
  if (token / 2 != block_) {
    block_ = token / 2;
    words_ = Philox(key_, uint64_t(index), uint64_t(block_));
  }
  size_t lane = size_t(token % 2) * 2;
  return (uint64_t(words_[lane]) << 32 | words_[lane + 1]) >> 12;
}

// Returns the token with the largest logit / temperature + g, the lowest of equal ones. Here g = -log(-log(u)), where
// u = (bits + 0.5) / 2^52 is exact in f64. Since -log(u) >= 1 - u, g is at most n log 2 if 1 - u >= 2^-n. Most tokens
// need no logarithm, because with this bound they do not reach the largest sum so far.
int32_t Sampler::Draw(int64_t index) {
  constexpr uint64_t kAllBits = (uint64_t(1) << 52) - 1;
  constexpr double kLog2 = 0.693147180559946;  // rounded up
  int32_t best = kept_[0];
  double most = -std::numeric_limits<double>::infinity();
  block_ = -1;
  auto consider = [&](int32_t token) {
    uint64_t bits = Bits(token, index);
    double logit = logits_[size_t(token)] / options_.temperature;
    double bound = logit + double(53 - std::bit_width(kAllBits - bits)) * kLog2;
    if (bound + 1e-6 * (1 + std::abs(logit)) < most) return;  // far more than roundings
    double score = logit - std::log(-std::log((double(bits) + 0.5) * 0x1p-52));
    if (score < most || (score == most && token >= best)) return;
    best = token;
    most = score;
  };
  // The likeliest token first: its sum is one of the largest.
  consider(*std::max_element(kept_.begin(), kept_.end(),
                             [&](int32_t a, int32_t b) { return logits_[size_t(a)] < logits_[size_t(b)]; }));
  for (int32_t token : kept_) consider(token);
  return best;
}

}  // namespace weft
