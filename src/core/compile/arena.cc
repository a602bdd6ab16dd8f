#include "weft/core/compile/arena.h"

#include <algorithm>
#include <cstdint>
#include <map>

#include "weft/core/host/rounding.h"

namespace weft {
namespace {

constexpr size_t kAlign = 64;

size_t Round(size_t bytes) { return std::max(kAlign, RoundUpBytes(bytes, kAlign)); }

// Best fit over a list of free ranges, in program order. Sizes are multiples of kAlign.
class Arena {
 public:
  size_t Allocate(size_t bytes) {
    auto best = by_size_.lower_bound(bytes);
    if (best == by_size_.end()) return Grow(bytes);
    auto [size, offset] = *best;
    by_size_.erase(best);
    by_offset_.erase(offset);
    if (size > bytes) Insert(offset + bytes, size - bytes);
    return offset;
  }
  void Free(size_t offset, size_t bytes) {
    auto next = by_offset_.lower_bound(offset);
    if (next != by_offset_.end() && offset + bytes == next->first) {
      bytes += next->second;
      Remove(next++);
    }
    if (next != by_offset_.begin()) {
      auto previous = std::prev(next);
      if (previous->first + previous->second == offset) {
        offset = previous->first;
        bytes += previous->second;
        Remove(previous);
      }
    }
    Insert(offset, bytes);
  }
  size_t bytes() const { return end_; }

 private:
  using Offsets = std::map<size_t, size_t>;
  // If the last free range ends at the end of the arena, extends that range.
  size_t Grow(size_t bytes) {
    size_t offset = end_;
    if (!by_offset_.empty()) {
      auto last = std::prev(by_offset_.end());
      if (last->first + last->second == end_) {
        offset = last->first;
        Remove(last);
      }
    }
    end_ = offset + bytes;
    return offset;
  }
  void Insert(size_t offset, size_t bytes) {
    by_offset_[offset] = bytes;
    by_size_.emplace(bytes, offset);
  }
  void Remove(Offsets::iterator it) {
    auto range = by_size_.equal_range(it->second);
    for (auto s = range.first; s != range.second; ++s)
      if (s->second == it->first) {
        by_size_.erase(s);
        break;
      }
    by_offset_.erase(it);
  }
  Offsets by_offset_;
  std::multimap<size_t, size_t> by_size_;
  size_t end_ = 0;
};

// Blocks with their offsets, each placed at the first gap among the blocks in use at the same time. Most blocks are in
// use for a short time only. Windows list these, so that few are looked at: window k covers the events from k to k + 2
// strides, and holds every short use that begins in its first stride and does not outlast it.
class PlacedBlocks {
 public:
  struct Time {
    uint32_t begin, end;
  };
  explicit PlacedBlocks(size_t events) : windows_(events / kStride + 2) {}

  // Returns the offset of the new block.
  size_t Place(Time time, size_t bytes) {
    size_t k = time.begin / kStride;
    bool is_short = time.end <= (k + 2) * kStride;
    size_t offset = FirstGap(is_short ? windows_[k] : short_, time, bytes);
    Block block{time, offset, offset + bytes};
    if (!is_short) {
      Insert(long_, block);
      return offset;
    }
    Insert(short_, block);
    size_t last = time.end > (k + 1) * kStride ? k + 1 : k;
    for (size_t window = k > 0 ? k - 1 : 0; window <= last; window++) Insert(windows_[window], block);
    return offset;
  }

 private:
  struct Block {
    Time time;
    size_t begin, end;  // in the arena
  };
  using Blocks = std::vector<Block>;  // by offset
  static constexpr size_t kStride = 128;

  // Looks at `blocks` and the long uses in the order of their offsets.
  size_t FirstGap(const Blocks& blocks, Time time, size_t bytes) const {
    size_t gap = 0;
    auto a = blocks.begin(), b = long_.begin();
    while (a != blocks.end() || b != long_.end()) {
      const Block& other = b == long_.end() || (a != blocks.end() && a->begin < b->begin) ? *a++ : *b++;
      if (other.time.begin >= time.end || time.begin >= other.time.end) continue;
      if (gap + bytes <= other.begin) break;
      gap = std::max(gap, other.end);
    }
    return gap;
  }
  static void Insert(Blocks& blocks, const Block& block) {
    auto after = std::upper_bound(blocks.begin(), blocks.end(), block.begin,
                                  [](size_t begin, const Block& other) { return begin < other.begin; });
    blocks.insert(after, block);
  }

  std::vector<Blocks> windows_;  // of short uses
  Blocks short_, long_;          // all
};

}  // namespace

size_t ArenaBlocks::Request(size_t bytes) {
  events_.push_back({sizes_.size(), true});
  sizes_.push_back(Round(bytes));
  return sizes_.size() - 1;
}
void ArenaBlocks::Release(size_t block) { events_.push_back({block, false}); }

// Finds the most bytes that are in use at a time, and the block whose request reaches them. No layout needs less.
ArenaBlocks::Most ArenaBlocks::MostInUse() const {
  size_t now = 0;
  Most most;
  for (const auto& [block, is_request] : events_) {
    now += is_request ? sizes_[block] : -sizes_[block];
    if (now > most.bytes) most = {now, block};
  }
  return most;
}

// Places each block when it is requested.
ArenaBlocks::Layout ArenaBlocks::PlaceByBestFit() const {
  Arena arena;
  Layout layout{std::vector<size_t>(sizes_.size())};
  for (const auto& [block, is_request] : events_) {
    if (!is_request) {
      arena.Free(layout.offsets[block], sizes_[block]);
      continue;
    }
    layout.offsets[block] = arena.Allocate(sizes_[block]);
    if (arena.bytes() > layout.bytes) layout.bytes = arena.bytes(), layout.fullest = block;
  }
  return layout;
}

std::vector<ArenaBlocks::Use> ArenaBlocks::Uses() const {
  std::vector<Use> uses(sizes_.size());
  for (size_t i = 0; i < events_.size(); i++) {
    auto [block, is_request] = events_[i];
    if (is_request)
      uses[block] = {i, events_.size(), sizes_[block], block};
    else
      uses[block].end = i;
  }
  return uses;
}

// Places each block at the first gap among the blocks in use at the same time that come before it in `uses`.
ArenaBlocks::Layout ArenaBlocks::PlaceInOrder(const std::vector<Use>& uses) const {
  PlacedBlocks placed(events_.size());
  Layout layout{std::vector<size_t>(uses.size())};
  for (const Use& use : uses) {
    size_t offset = placed.Place({uint32_t(use.begin), uint32_t(use.end)}, use.bytes), end = offset + use.bytes;
    layout.offsets[use.block] = offset;
    if (end > layout.bytes) layout.bytes = end, layout.fullest = use.block;
  }
  return layout;
}

// Best fit leaves gaps if a small block that is in use for long lies in the middle of a range that a large one could
// have taken. Then other orders are tried, in which few gaps are left as a rule: the first blocks first, the largest,
// or those that are longest in use. After that, the block that lies highest goes first, again and again. Each attempt
// takes time that is quadratic in the number of blocks if most are in use for long.
ArenaBlocks::Layout ArenaBlocks::Place() const {
  Layout best = PlaceByBestFit();
  Most most = MostInUse();
  size_t blocks = std::max<size_t>(sizes_.size(), 1);
  size_t attempts = std::min<size_t>(20, (size_t(1) << 30) / (blocks * blocks));
  std::vector<Use> uses = Uses(), order = uses;
  auto sort = [&](auto&& key) {
    std::stable_sort(uses.begin(), uses.end(), [&](const Use& a, const Use& b) { return key(a) > key(b); });
  };
  for (size_t i = 0; i < attempts && best.bytes > most.bytes + most.bytes / 512; i++) {
    if (i == 1) sort([](const Use& use) { return use.bytes; });
    if (i == 2) sort([](const Use& use) { return use.end - use.begin; });
    Layout layout = PlaceInOrder(i < 3 ? uses : order);
    if (i > 2 || layout.bytes < best.bytes) {
      if (i <= 2) order = uses;
      auto highest =
          std::find_if(order.begin(), order.end(), [&](const Use& use) { return use.block == layout.fullest; });
      std::rotate(order.begin(), highest, highest + 1);
    }
    layout.fullest = most.block;
    if (layout.bytes < best.bytes) best = std::move(layout);
  }
  return best;
}

}  // namespace weft
