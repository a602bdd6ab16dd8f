// Random numbers: Philox gives its published test vectors, and the normals invert their distribution function.
#include "weft/core/base/rng.h"

#include <gtest/gtest.h>

#include <cmath>
#include <set>
#include <string>

namespace weft {
namespace {

using Block = std::array<uint32_t, 4>;

// In the paper's order, the counter is (block low, block high, step low, step high) and the key is (key low, key high).
Block Philox10(const Block& counter, uint32_t key0, uint32_t key1) {
  auto join = [](uint32_t low, uint32_t high) { return uint64_t(high) << 32 | low; };
  return Philox(join(key0, key1), join(counter[2], counter[3]), join(counter[0], counter[1]));
}

// From the file kat_vectors of Random123, for philox4x32 with 10 rounds.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(Philox10({0, 0, 0, 0}, 0, 0), (Block{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(Philox10({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, 0xffffffff, 0xffffffff),
            (Block{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(Philox10({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, 0xa4093822, 0x299f31d0),
            (Block{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Uniform, IsExactAndInsideZeroAndOne) {
  EXPECT_EQ(UniformFromBits(0), 0x1p-33);
  EXPECT_EQ(UniformFromBits(0xffffffffu), 1 - 0x1p-33);
  EXPECT_EQ(UniformFromBits(0x80000000u), 0.5 + 0x1p-33);
}

// Returns the probability of the tail beyond z, on z's own side, where erfc loses no digits.
double Tail(double z) { return 0.5 * std::erfc(std::fabs(z) / std::sqrt(2.0)); }

// To first order, the error of z is the error of its probability divided by the density.
TEST(Normal, IsTheInverseOfTheDistributionTo1em9) {
  auto check = [](uint32_t bits) {
    double z = NormalFromBits(bits), u = UniformFromBits(bits);
    double tail = std::min(u, UniformFromBits(~bits)), density = std::exp(-z * z / 2) / std::sqrt(2 * M_PI);
    ASSERT_LT(std::fabs(Tail(z) - tail) / density, 1e-9) << bits;
    ASSERT_EQ(z < 0, u < 0.5) << bits;
  };
  for (uint32_t i = 0; i < 200000; i++) check(i * 21474u);
  for (uint32_t i = 0; i < 2000; i++) {
    check(i);
    check(~i);
    check(0x80000000u + i - 1000);
  }
}

TEST(Normal, IsOddAndMonotone) {
  double previous = -INFINITY;
  for (uint32_t i = 0; i < 100000; i++) {
    uint32_t bits = i * 42949u;
    double z = NormalFromBits(bits);
    ASSERT_EQ(NormalFromBits(~bits), -z) << bits;
    ASSERT_GT(z, previous) << bits;
    previous = z;
  }
}

// Over 2^20 numbers of one stream, each statistic lies within five standard errors of the standard normal's.
TEST(Normal, MomentsAndQuantilesOfAStream) {
  constexpr int n = 1 << 20;
  uint64_t key = RandomKey(7, RandomPhase::kInit, "layers.0.attn", 0);
  double sum[5] = {};
  const double cuts[] = {-3, -2, -1, -0.5, 0, 0.5, 1, 2, 3};
  int below[9] = {};
  for (uint64_t block = 0; block < n / 4; block++)
    for (uint32_t bits : Philox(key, 0, block)) {
      double z = NormalFromBits(bits), power = 1;
      for (double& s : sum) {
        s += power;
        power *= z;
      }
      for (int i = 0; i < 9; i++) below[i] += z < cuts[i];
    }
  const double moment[] = {1, 0, 1, 0, 3}, variance[] = {0, 1, 2, 15, 96};  // the variance of z^k: E z^2k - (E z^k)^2
  for (int k = 0; k < 5; k++) EXPECT_NEAR(sum[k] / n, moment[k], 5 * std::sqrt(variance[k] / n) + 1e-15) << k;
  for (int i = 0; i < 9; i++) {
    double p = cuts[i] < 0 ? Tail(cuts[i]) : 1 - Tail(cuts[i]);
    EXPECT_NEAR(double(below[i]) / n, p, 5 * std::sqrt(p * (1 - p) / n)) << cuts[i];
  }
}

TEST(RandomKey, EveryPartOfTheKeyCounts) {
  std::set<uint64_t> keys;
  int made = 0;
  for (uint64_t seed : {0ull, 1ull, 7ull, ~0ull})
    for (int phase = 0; phase < 5; phase++)
      for (int layer = 0; layer < 50; layer++)
        for (uint64_t ordinal = 0; ordinal < 8; ordinal++, made++)
          keys.insert(RandomKey(seed, RandomPhase(phase), "layers." + std::to_string(layer) + ".attn", ordinal));
  EXPECT_EQ(int(keys.size()), made);
}

TEST(Dropout, KeepsTheShareThatItSays) {
  EXPECT_EQ(DropoutThreshold(0), 0u);
  EXPECT_EQ(DropoutThreshold(1), 1u << 16);
  for (double p : {0.1, 0.5, 0.9}) {
    constexpr int n = 1 << 18;
    int dropped = 0;
    for (uint64_t block = 0; block < n / 8; block++)
      for (uint32_t bits : Philox(11, 3, block))
        dropped += ((bits & 0xffff) < DropoutThreshold(p)) + (bits >> 16 < DropoutThreshold(p));
    double share = DropoutThreshold(p) / 65536.0;
    EXPECT_NEAR(share, p, 0x1p-17);
    EXPECT_NEAR(double(dropped) / n, share, 5 * std::sqrt(p * (1 - p) / n));
    EXPECT_NEAR((1 - share) * DropoutScale(p), 1, 0x1p-52);
  }
}

}  // namespace
}  // namespace weft
