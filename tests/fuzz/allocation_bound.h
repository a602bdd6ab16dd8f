// How much memory a reader may take for an input of a given size. A reader must not allocate a length that the input
// only claims. Replaces operator new, because a fuzzer's own limits do not depend on the input's size.
#pragma once
#include <cstddef>

namespace weft::fuzz {

// A reader may take this much for an input: a fixed part for buffers and the text of an error, and a multiple of the
// input's bytes. A single allocation may take at most 10 times these bytes. The fixed part is small, because a false
// claim of that size would go unnoticed; each target states what it is for.
constexpr size_t kLargestTimes = 10;
struct Need {
  size_t largest, live;     // the fixed parts: of one allocation, and of all live ones
  size_t live_times = 100;  // parsed text takes more than its bytes, in many small pieces
};

// While alive, ends the process if one allocation, or all live ones together, exceed the need.
class AllocationBound {
 public:
  AllocationBound(size_t input, const Need& need);
  ~AllocationBound();
  AllocationBound(const AllocationBound&) = delete;
  AllocationBound& operator=(const AllocationBound&) = delete;

  static size_t Largest();   // the largest since the latest bound was made
  static size_t LivePeak();  // above what was live at that time
};

}  // namespace weft::fuzz
