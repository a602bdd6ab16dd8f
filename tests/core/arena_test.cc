// Blocks that are in use at the same time do not overlap, and no layout takes much more than what is in use.
#include "weft/core/compile/arena.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <random>

namespace weft {
namespace {

struct Block {
  size_t number, bytes;
};

// Requests and releases blocks, and checks their layout against what was in use at each time.
class Trial {
 public:
  void Request(size_t bytes) {
    blocks_.push_back({arena_.Request(bytes), bytes});
    in_use_.push_back(blocks_.back());
    times_.push_back(in_use_);
    size_t now = 0;
    for (const Block& b : in_use_) now += std::max<size_t>((b.bytes + 63) / 64 * 64, 64);
    most_ = std::max(most_, now);
  }
  void Release(size_t i) {
    arena_.Release(in_use_[i].number);
    in_use_.erase(in_use_.begin() + long(i));
  }
  size_t in_use() const { return in_use_.size(); }

  // Returns the arena's bytes over the most that were in use.
  double Check() const {
    ArenaBlocks::Layout layout = arena_.Place();
    for (const std::vector<Block>& now : times_)
      for (size_t a = 0; a < now.size(); a++) {
        size_t begin = layout.offsets[now[a].number], end = begin + now[a].bytes;
        EXPECT_EQ(begin % 64, 0u);
        EXPECT_LE(end, layout.bytes);
        for (size_t b = 0; b < a; b++) {
          size_t other = layout.offsets[now[b].number];
          EXPECT_TRUE(end <= other || other + now[b].bytes <= begin);
        }
      }
    EXPECT_GE(layout.bytes, most_);
    return double(layout.bytes) / double(most_);
  }

 private:
  ArenaBlocks arena_;
  std::vector<Block> blocks_, in_use_;
  std::vector<std::vector<Block>> times_;  // what was in use after each request
  size_t most_ = 0;
};

TEST(Arena, BlocksInUseDoNotOverlap) {
  std::mt19937 rng(5);
  for (int seed = 0; seed < 50; seed++) {
    Trial trial;
    for (int i = 0; i < 120; i++) {
      while (trial.in_use() > 0 && rng() % 3 == 0) trial.Release(rng() % trial.in_use());
      trial.Request(size_t(1) << rng() % 16);
    }
    EXPECT_LE(trial.Check(), 1.3) << seed;
  }
}

// As in derivatives by blocks: large blocks come and go, and each leaves a small one that stays.
TEST(Arena, SmallBlocksThatStayCostNoGaps) {
  Trial trial;
  for (size_t i = 0; i < 40; i++) {
    for (size_t large : {7000, 5000, 9000}) trial.Request(100 * large);
    trial.Request(200);
    for (int k = 0; k < 3; k++) trial.Release(i);
  }
  EXPECT_LE(trial.Check(), 1.04);
}

TEST(Arena, IsEmptyWithoutBlocks) { EXPECT_EQ(ArenaBlocks().Place().bytes, 0u); }

}  // namespace
}  // namespace weft
