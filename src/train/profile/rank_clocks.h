// RankClocks: puts the times of all ranks on one scale, and finds when the last rank of a group arrived.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/core/compile/run_profile.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// Returns how many nanoseconds this rank's SteadyNanoseconds is ahead of rank 0's. The result is 0 on rank 0's host. On
// other hosts it is measured at barriers, with an error of about the latency of a message. All ranks must call it.
int64_t ClockOffset(ProcessGroup& world);

// Returns, per collective of the steps and in order, when the last rank of its group began it. The times are on this
// rank's clock, which is `clock_offset` ahead of rank 0's. All ranks must call it, with profiles of the same programs.
std::vector<int64_t> LastArrivals(const std::vector<RunProfile::Step>& steps, DeviceMesh& mesh, int64_t clock_offset);

}  // namespace weft
