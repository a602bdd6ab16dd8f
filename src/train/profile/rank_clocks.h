// RankClocks: times of ranks on one scale, and who of a group came last.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/core/compile/run_profile.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// The nanoseconds by which SteadyNanoseconds of this rank is ahead of rank 0's. 0 on rank 0's host; elsewhere measured
// at barriers, so that it is off by about the time of a message. Called by all ranks alike.
int64_t ClockOffset(ProcessGroup& world);

// For each collective of the steps, in order: when the last rank of its group began it, by this rank's clock, which is
// `clock_offset` ahead of rank 0's. Called by all ranks alike, with profiles of the same programs.
std::vector<int64_t> LastArrivals(const std::vector<RunProfile::Step>& steps, DeviceMesh& mesh, int64_t clock_offset);

}  // namespace weft
