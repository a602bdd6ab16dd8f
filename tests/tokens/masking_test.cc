// Masking for BERT: the shares of masked tokens, equal results on every mesh and in every evaluation, and unchanged
// other tokens.
#include <gtest/gtest.h>

#include <cmath>
#include <numeric>

#include "weft/train/data/data.h"
#include "weft/train/data/source/masking.h"

namespace weft {
namespace {

constexpr int32_t kMask = 97;
constexpr int64_t kKinds = 97, kContext = 64;

struct Row {
  std::vector<int32_t> tokens = std::vector<int32_t>(kContext), targets = std::vector<int32_t>(kContext);
  Row() {
    for (int64_t i = 0; i < kContext; i++) tokens[size_t(i)] = int32_t(i * 31 % kKinds);
  }
  bool operator==(const Row&) const = default;
};

// Within 5 standard deviations of a binomial distribution of n.
void ExpectShare(int64_t count, int64_t n, double p) {
  EXPECT_NEAR(double(count), p * double(n), 5 * std::sqrt(double(n) * p * (1 - p)));
}

TEST(Masking, TakesItsShares) {
  Masking masking(7, kMask, kKinds);
  const Row plain;
  int64_t chosen = 0, masked = 0, stayed = 0, n = 0;
  for (int64_t row = 0; row < 2000; row++) {
    Row out;
    int64_t count = masking.Train(row % 5, row, out.tokens, out.targets), mine = 0;
    for (size_t i = 0; i < out.tokens.size(); i++, n++) {
      bool target = out.targets[i] != kIgnoredTarget;
      mine += target;
      if (!target) {
        ASSERT_EQ(out.tokens[i], plain.tokens[i]);
        continue;
      }
      ASSERT_EQ(out.targets[i], plain.tokens[i]);
      masked += out.tokens[i] == kMask;
      stayed += out.tokens[i] == plain.tokens[i];
      ASSERT_LE(out.tokens[i], kMask);
    }
    ASSERT_EQ(count, mine);
    chosen += mine;
  }
  ExpectShare(chosen, n, 0.15);
  ExpectShare(masked, chosen, 0.8);
  ExpectShare(stayed, chosen, 0.1 + 0.1 / double(kKinds));
}

TEST(Masking, IsAFunctionOfSeedStepAndRow) {
  auto train = [](uint64_t seed, int64_t step, int64_t row) {
    Row out;
    Masking(seed, kMask, kKinds).Train(step, row, out.tokens, out.targets);
    return out;
  };
  auto evaluate = [](uint64_t seed, int64_t window) {
    Row out;
    Masking(seed, kMask, kKinds).Evaluate(window, out.tokens, out.targets);
    return out;
  };
  EXPECT_EQ(train(1, 2, 3), train(1, 2, 3));
  EXPECT_NE(train(1, 2, 3), train(2, 2, 3));
  EXPECT_NE(train(1, 2, 3), train(1, 3, 3));
  EXPECT_NE(train(1, 2, 3), train(1, 2, 4));
  EXPECT_EQ(evaluate(1, 3), evaluate(1, 3));
  EXPECT_NE(evaluate(1, 3), evaluate(1, 4));
  EXPECT_NE(evaluate(1, 3), train(1, 0, 3));
}

}  // namespace
}  // namespace weft
