// Sharding keeps its invariant under every sequence of changes, and equal shardings are those with equal meaning.
#include "weft/core/base/placement.h"

#include <gtest/gtest.h>

#include <random>

#include "absl/hash/hash.h"
#include "weft/core/base/error.h"

namespace weft {
namespace {

Placement RandomPlacement(std::mt19937& rng) {
  switch (rng() % 4) {
    case 0:
      return Replicate();
    case 1:
      return Partial(ReduceOp(rng() % 3));
    default:
      return Shard(int(rng() % 3));
  }
}

// The axes of one dim have the orders 0, 1, 2, ...; other axes have none. DimAxes lists each sharding axis once.
void CheckInvariant(const Sharding& s) {
  int sharded = 0, listed = 0;
  for (int a = 0; a < s.num_axes(); a++) {
    sharded += s[a].kind == Placement::kShard;
    if (s[a].kind != Placement::kShard) {
      ASSERT_EQ(s[a].order, -1);
    }
  }
  for (int d = 0; d < 3; d++) {
    AxisList axes = s.DimAxes(d);
    listed += int(axes.size());
    for (size_t i = 0; i < axes.size(); i++) ASSERT_EQ(s[axes[i]].order, int(i));
  }
  ASSERT_EQ(sharded, listed);
}

TEST(Sharding, OrdersStayContiguousUnderAnyChanges) {
  std::mt19937 rng(3);
  for (int round = 0; round < 2000; round++) {
    Sharding s(1 + int(rng() % 4));
    for (int step = 0; step < 12; step++) {
      int axis = int(rng()) & (s.num_axes() - 1);
      Placement p = RandomPlacement(rng);
      s.Set(axis, p);
      CheckInvariant(s);
      ASSERT_EQ(s[axis].kind, p.kind);
      if (p.kind == Placement::kShard) {
        ASSERT_EQ(s.DimAxes(p.dim).back(), axis) << "the axis set last is the minor one";
      }
    }
  }
}

// Removing an axis from a dim keeps the relative order of the others.
TEST(Sharding, ClearingAnAxisKeepsTheOrderOfTheRest) {
  Sharding s{Shard(0, 2), Shard(0, 0), Shard(0, 1)};
  EXPECT_EQ(s.DimAxes(0), (AxisList{1, 2, 0}));
  s.Set(2, Replicate());
  EXPECT_EQ(s.DimAxes(0), (AxisList{1, 0}));
}

TEST(Sharding, OrdersLeftOutFollowByAxisNumberAfterTheGivenOnes) {
  EXPECT_EQ((Sharding{Shard(0), Shard(0)}).DimAxes(0), (AxisList{0, 1}));
  EXPECT_EQ((Sharding{Shard(0), Shard(0, 0)}).DimAxes(0), (AxisList{1, 0}));
  EXPECT_EQ((Sharding{Shard(0), Shard(1), Shard(0, 0)}).DimAxes(0), (AxisList{2, 0}));
}

// Two shardings are equal, and have equal hashes, exactly if they print the same text.
TEST(Sharding, EqualityIsMeaning) {
  std::mt19937 rng(5);
  std::vector<Sharding> all;
  for (int i = 0; i < 300; i++) {
    Sharding s(3);
    for (int step = 0; step < 6; step++) s.Set(int(rng() % 3), RandomPlacement(rng));
    all.push_back(s);
  }
  for (const Sharding& a : all)
    for (const Sharding& b : all) {
      bool same = a == b;
      bool same_text = ToString(a) == ToString(b);
      if (same) {
        ASSERT_EQ(absl::HashOf(a), absl::HashOf(b));
      }
      ASSERT_EQ(same, same_text) << ToString(a) << " " << ToString(b);
    }
  EXPECT_FALSE(Sharding(1) == Sharding(2));
}

TEST(Sharding, DualResolvesPartialsOnly) {
  EXPECT_EQ(Dual(Sharding{Shard(1), Partial(), Replicate()}), (Sharding{Shard(1), Replicate(), Replicate()}));
  Sharding ordered{Shard(0, 1), Shard(0, 0)};
  EXPECT_EQ(Dual(ordered), ordered);
  EXPECT_EQ(Dual(Dual(Sharding{Partial(ReduceOp::kMax)})), Dual(Sharding{Partial(ReduceOp::kMax)}));
}

TEST(Sharding, Text) {
  EXPECT_EQ(ToString(Sharding{Shard(0), Replicate(), Partial()}), "(S(0), R, P(sum))");
  EXPECT_EQ(ToString(Sharding{Shard(0), Shard(0)}), "(S(0), S(0))");
  EXPECT_EQ(ToString(Sharding{Shard(0, 1), Shard(0, 0)}), "(S(0)#1, S(0)#0)");
  EXPECT_EQ(ToString(Sharding{Keep(), Partial(ReduceOp::kMin)}), "(keep, P(min))");
}

TEST(Sharding, TooManyAxesAreRefused) { EXPECT_THROW(Sharding(std::vector<Placement>(kMaxAxes + 1)), Error); }

}  // namespace
}  // namespace weft
