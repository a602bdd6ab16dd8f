// ArenaBlocks: the blocks of memory that a plan needs, in the order in which it requests and releases them, and their
// offsets in one arena.
#pragma once
#include <cstddef>
#include <vector>

namespace weft {

class ArenaBlocks {
 public:
  size_t Request(size_t bytes);  // returns the block's number, from 0 on
  void Release(size_t block);    // at most once per block

  struct Layout {
    std::vector<size_t> offsets;  // per block; multiples of 64
    size_t bytes = 0;             // of the arena
    size_t fullest = 0;           // the block with whose request the arena is fullest
  };
  // Returns the smallest of a few layouts. Blocks that exist at the same time do not overlap.
  Layout Place() const;

 private:
  struct Event {
    size_t block;
    bool is_request;
  };
  // When a block is in use, as positions in events_: from `begin` until before `end`.
  struct Use {
    size_t begin, end, bytes, block;
  };
  struct Most {
    size_t bytes = 0, block = 0;
  };
  Most MostInUse() const;
  std::vector<Use> Uses() const;  // per block
  Layout PlaceByBestFit() const;
  Layout PlaceInOrder(const std::vector<Use>& uses) const;

  std::vector<size_t> sizes_;  // per block
  std::vector<Event> events_;
};

}  // namespace weft
