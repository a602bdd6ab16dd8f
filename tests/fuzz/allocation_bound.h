// How much memory a reader may take for an input of so many bytes: a length that the input claims, and does not have,
// must not be allocated. Replaces operator new, as a fuzzer's own limits know nothing of the input's size.
#pragma once
#include <cstddef>

namespace weft::fuzz {

// What a reader may take: for any input, however short, buffers of a fixed size and the words of an answer; and some
// times its bytes, of which no single allocation has more than 10 times as many. The fixed part is little, or a claim
// of as much would hide behind it; targets say what it is.
constexpr size_t kLargestTimes = 10;
struct Need {
  size_t largest, live;     // fixed; one allocation, all of them at a time
  size_t live_times = 100;  // parsed text takes more than its bytes, in many small pieces
};

// While it lives, ends the process where one allocation, or all of them at a time, are above the need.
class AllocationBound {
 public:
  AllocationBound(size_t input, const Need& need);
  ~AllocationBound();
  AllocationBound(const AllocationBound&) = delete;
  AllocationBound& operator=(const AllocationBound&) = delete;

  static size_t Largest();   // since the latest one was made
  static size_t LivePeak();  // above what was live then
};

}  // namespace weft::fuzz
