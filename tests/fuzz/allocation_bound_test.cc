// Tests of the bound itself: it finds a reader that allocates what an input claims instead of what it has, however
// short the input is.
#include "fuzz/allocation_bound.h"

#include <gtest/gtest.h>

#include <memory>
#include <new>
#include <vector>

namespace weft::fuzz {
namespace {

// Calls operator new and delete by name, because a compiler may remove the allocation of a new-expression whose memory
// is not read.
struct Free {
  void operator()(void* p) const { ::operator delete(p); }
};
using Block = std::unique_ptr<void, Free>;
Block Take(size_t bytes) { return Block(::operator new(bytes)); }

TEST(AllocationBound, EndsWhatTakesMoreThanItsNeedAtOnce) {
  constexpr size_t kMost = 10 * 100 + 512;
  auto take = [](size_t bytes) {
    AllocationBound bound(100, {.largest = 512, .live = 1 << 20});
    Block block = Take(bytes);
    return AllocationBound::Largest();
  };
  EXPECT_EQ(take(kMost), kMost);
  EXPECT_DEATH(take(kMost + 1), "broken: an allocation of 1513 bytes, above 1512");
}

TEST(AllocationBound, EndsWhatTakesMoreThanItsNeedInPieces) {
  auto take = [](size_t pieces) {
    std::vector<Block> blocks(pieces);
    AllocationBound bound(10, {.largest = 512, .live = 512});
    for (Block& block : blocks) block = Take(256);
    return AllocationBound::LivePeak();
  };
  EXPECT_GE(take(5), 5u * 256);
  EXPECT_DEATH(take(6), "broken: allocations of [0-9]+ bytes, above [0-9]+");
}

// Freed memory is not counted, and after the bound's end nothing is limited.
TEST(AllocationBound, CountsWhatIsLive) {
  Block before = Take(1 << 16);
  {
    AllocationBound bound(0, {.largest = 512, .live = 512});
    for (int i = 0; i < 100; i++) Take(256);
  }
  EXPECT_NE(Take(1 << 16), nullptr);
}

}  // namespace
}  // namespace weft::fuzz
