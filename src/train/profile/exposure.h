// Exposure: the times of collectives that nothing hides. A kernel hides the part of a collective during which it runs,
// and of collectives that run at the same time each hides the part of the next that it covers. So the times of kernels,
// the exposed times and the rest add up to the time of a step.
#pragma once
#include <cstdint>
#include <span>
#include <vector>

#include "weft/train/profile/profiled_batch.h"

namespace weft {

struct Exposed {
  int64_t all = 0, waiting = 0;  // nanoseconds; waiting is the part before the last rank had arrived
};
// Returns one entry per batch of a program; kernels have zeros. arrivals[i] is when the last rank arrived in batch i.
// The kernels must not run at the same time as each other.
std::vector<Exposed> ExposedOf(std::span<const ProfiledBatch> batches, std::span<const int64_t> arrivals);

}  // namespace weft
