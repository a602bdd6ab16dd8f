// Draws follow the distribution, do not hang on last bits, and are equal for equal seeds.
#include "weft/train/infer/sampler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

#include "fmt/format.h"
#include "share.h"
#include "weft/core/base/rng.h"

namespace weft {
namespace {

std::vector<double> RandomLogits(size_t n, uint64_t seed, double scale = 2) {
  std::mt19937_64 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<double> logits(n);
  for (double& logit : logits) logit = normal(random);
  return logits;
}

int32_t ArgMax(const std::vector<double>& logits) {
  return int32_t(std::max_element(logits.begin(), logits.end()) - logits.begin());
}

// The distribution by its definition: sorted, cut to k, then to the least prefix of mass p.
std::vector<double> Distribution(const std::vector<double>& logits, const SamplerOptions& o) {
  std::vector<size_t> order(logits.size());
  for (size_t i = 0; i < order.size(); i++) order[i] = i;
  std::stable_sort(order.begin(), order.end(), [&](size_t a, size_t b) { return logits[a] > logits[b]; });
  if (o.top_k > 0) order.resize(std::min(order.size(), size_t(o.top_k)));
  auto weight = [&](size_t i) { return std::exp((double(logits[i]) - double(logits[order[0]])) / o.temperature); };
  auto total = [&] {
    double sum = 0;
    for (size_t i : order) sum += weight(i);
    return sum;
  };
  double of_k = total(), sum = 0;
  size_t kept = 0;
  while (kept < order.size() && sum < o.top_p * of_k) sum += weight(order[kept++]);
  order.resize(kept);
  std::vector<double> p(logits.size());
  for (size_t i : order) p[i] = weight(i) / total();
  return p;
}

TEST(Sampler, FrequenciesFollowTheDistribution) {
  constexpr int kDraws = 100'000;
  std::vector<double> logits = RandomLogits(23, 5);
  for (SamplerOptions o : {SamplerOptions{},
                           {.temperature = 0.5},
                           {.temperature = 3, .seed = 9},
                           {.top_k = 4},
                           {.top_p = 0.7},
                           {.temperature = 1.5, .top_k = 9, .top_p = 0.9}}) {
    std::vector<double> p = Distribution(logits, o);
    std::vector<int> count(logits.size());
    Sampler sampler(o);
    for (int i = 0; i < kDraws; i++) count[size_t(*sampler.Pick(logits, i))]++;
    for (size_t t = 0; t < p.size(); t++) {
      double error = std::sqrt(p[t] * (1 - p[t]) / kDraws);
      EXPECT_NEAR(double(count[t]) / kDraws, p[t], 5 * error + p[t] / 4000)  // and the rounding of logits
          << "token " << t << " at temperature " << o.temperature << ", top_k " << o.top_k << ", top_p " << o.top_p;
    }
  }
}

// Draws at neighbouring places know nothing of each other: pairs of them follow the product.
TEST(Sampler, NeighboursAreIndependent) {
  constexpr int kPairs = 100'000;
  std::vector<double> logits{0, 1, 0.5};
  std::vector<double> p = Distribution(logits, {});
  Sampler sampler({});
  int count[3][3] = {};
  for (int i = 0; i < kPairs; i++) {
    int32_t first = *sampler.Pick(logits, 2 * i), second = *sampler.Pick(logits, 2 * i + 1);
    count[first][second]++;
  }
  for (size_t a = 0; a < 3; a++)
    for (size_t b = 0; b < 3; b++) {
      double both = p[a] * p[b];
      EXPECT_NEAR(double(count[a][b]) / kPairs, both, 5 * std::sqrt(both * (1 - both) / kPairs) + both / 2000);
    }
}

TEST(Sampler, NoTemperatureAndTopOneAreGreedy) {
  for (uint64_t seed = 1; seed <= 50; seed++) {
    std::vector<double> logits = RandomLogits(300, seed);
    Sampler greedy({.greedy = true}), none({.temperature = 0, .seed = seed}), cold({.temperature = 1e-6, .seed = seed}),
        coldest({.temperature = 1e-300}), one({.temperature = 5, .top_k = 1, .seed = seed}),
        little({.temperature = 2, .top_p = 1e-9});
    std::vector<double> sorted = logits;
    std::nth_element(sorted.begin(), sorted.begin() + 1, sorted.end(), std::greater());
    if (sorted[0] - sorted[1] < 1e-3) continue;  // a tie, within what logits are rounded to
    for (int64_t i = 0; i < 20; i++)
      for (Sampler* sampler : {&greedy, &none, &cold, &coldest, &one, &little})
        EXPECT_EQ(*sampler->Pick(logits, i), ArgMax(logits));
  }
}

// The largest logit as computed, however little it is larger, and the lowest of equal ones.
TEST(Sampler, GreedyIsTheArgMaxOfTheLogitsAsTheyAre) {
  for (SamplerOptions o : {SamplerOptions{.greedy = true}, {.temperature = 0}, {.temperature = 7, .greedy = true}}) {
    EXPECT_EQ(*Sampler(o).Pick(std::vector<double>{1, 2, std::nextafter(2.0, 3.0), 2}, 3), 2);
    EXPECT_EQ(*Sampler(o).Pick(std::vector<double>{1, 2, 2, 2, 0}, 3), 1);
    EXPECT_EQ(*Sampler(o).Pick(std::vector<double>{-0.0, 0.0}, 3), 0);
    EXPECT_EQ(*Sampler(o).Pick(std::vector<double>{-1e300, -1e-300, -1}, 3), 1);
  }
}

// A draw is by its definition the lowest token of the largest logit / temperature + g, although most sums are never
// formed.
TEST(Sampler, DrawsTheLargestSum) {
  auto sum = [](double logit, double temperature, uint64_t key, int64_t index, size_t token) {
    std::array<uint32_t, 4> words = Philox(key, uint64_t(index), uint64_t(token / 2));
    size_t lane = token % 2 * 2;
    uint64_t bits = (uint64_t(words[lane]) << 32 | words[lane + 1]) >> 12;
    return logit / temperature - std::log(-std::log((double(bits) + 0.5) * 0x1p-52));
  };
  for (double temperature : {0.01, 0.7, 1.0, 50.0})
    for (double scale : {0.0, 0.1, 3.0, 30.0})
      for (uint64_t seed = 1; seed <= 20; seed++) {
        std::vector<double> logits = RandomLogits(2001, seed, scale), rounded = logits;
        for (double& logit : rounded) logit = std::nearbyint(logit * 0x1p12) * 0x1p-12;
        double most = *std::max_element(rounded.begin(), rounded.end());
        uint64_t key = RandomKey(seed, RandomPhase::kGenerate, "sampler", 3);
        int64_t index = int64_t(seed) * 7;
        std::vector<double> sums(logits.size());
        for (size_t t = 0; t < sums.size(); t++) sums[t] = sum(rounded[t] - most, temperature, key, index, t);
        Sampler sampler({.temperature = temperature, .seed = seed}, 3);
        ASSERT_EQ(*sampler.Pick(logits, index), ArgMax(sums)) << temperature << " " << scale << " " << seed;
      }
}

// Last bits decide no draw where tokens are equally likely: the lowest is taken.
TEST(Sampler, TwinsKeepTheirOrder) {
  for (double bits : {-1e-6, 0.0, 1e-6}) {
    std::vector<double> logits{1, 2 + bits, 2, 2 - bits, 0};
    for (SamplerOptions o : {SamplerOptions{.top_k = 1}, {.top_p = 0.1}}) EXPECT_EQ(*Sampler(o).Pick(logits, 3), 1);
    Sampler two({.top_k = 2});
    for (int64_t i = 0; i < 100; i++) EXPECT_NE(*two.Pick(logits, i), 3);
  }
}

// Errors of e change a draw with a probability of at most 2 e, whatever the number of tokens; and some where they are
// large, or this would test nothing. Six standard errors.
TEST(Sampler, SmallErrorsRarelyChangeADraw) {
  const int draws = 60'000 / test::Share();
  for (size_t vocab : {16u, 2000u})
    for (double error : {1e-6, 1e-4, 1e-2}) {
      std::mt19937_64 random(3);
      std::uniform_real_distribution<double> uniform(-error, error);
      Sampler a({.seed = 4}), b({.seed = 4});
      int flips = 0, done = draws / (vocab > 100 ? 20 : 1);
      for (int i = 0; i < done; i++) {
        std::vector<double> logits = RandomLogits(vocab, uint64_t(i)), other = logits;
        for (double& logit : other) logit += uniform(random);
        flips += *a.Pick(logits, i) != *b.Pick(other, i);
      }
      double most = 2 * error * done;
      EXPECT_LE(flips, most + 6 * std::sqrt(most) + 1) << vocab << " tokens, error " << error;
      if (error == 1e-2 && vocab == 16) {
        EXPECT_GT(flips, 0);
      }
    }
}

TEST(Sampler, ASeedIsAStream) {
  std::vector<double> logits(64, 0.0);
  auto text = [&](uint64_t seed) {
    Sampler sampler({.seed = seed});
    std::vector<int32_t> tokens;
    for (int64_t i = 0; i < 40; i++) tokens.push_back(*sampler.Pick(logits, i));
    return tokens;
  };
  EXPECT_EQ(text(1), text(1));
  EXPECT_NE(text(1), text(2));
}

TEST(Sampler, LogitsThatAreNotFiniteEndTheText) {
  for (double bad : {std::numeric_limits<double>::infinity(), std::numeric_limits<double>::quiet_NaN()})
    for (bool greedy : {true, false}) {
      absl::Status status = Sampler({.greedy = greedy}).Pick(std::vector<double>{0, bad, 1}, 7).status();
      EXPECT_TRUE(absl::IsAborted(status)) << status;
      EXPECT_NE(status.message().find("a logit of token 7 of the text is not finite"), std::string::npos) << status;
    }
}

}  // namespace
}  // namespace weft
