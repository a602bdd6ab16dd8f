// How much memory a reader may take for an input of so many bytes: a length that the input claims, and does not have,
// must not be allocated. Replaces operator new, as a fuzzer's own limits know nothing of the input's size.
#pragma once
#include <cstddef>

namespace weft::fuzz {

// While it lives, ends the process where one allocation is above 10 times the input and kFloor, or all of them at a
// time above kTimesLive times the input and kFloor: parsed text takes more than its bytes, in many small pieces.
class AllocationBound {
 public:
  static constexpr size_t kTimes = 10, kTimesLive = 100, kFloor = size_t{64} << 10;
  explicit AllocationBound(size_t input);
  ~AllocationBound();
  AllocationBound(const AllocationBound&) = delete;
  AllocationBound& operator=(const AllocationBound&) = delete;

  static size_t Largest();  // since the latest one was made
  static size_t LivePeak();
};

}  // namespace weft::fuzz
