#include "weft/train/profile/rank_clocks.h"

#include <algorithm>

#include "weft/core/runtime/timeline.h"
#include "weft/dist/group/consensus.h"
#include "weft/dist/net/host_identity.h"
#include "weft/train/profile/profiled_batch.h"

namespace weft {

int64_t ClockOffset(ProcessGroup& world) {
  constexpr size_t kRounds = 15;
  std::vector<std::string> hosts = GatherBytes(world, HostIdentity());
  std::vector<int64_t> mine(kRounds), all(kRounds * hosts.size());
  for (int64_t& time : mine) {
    world.Barrier();
    time = SteadyNanoseconds();
  }
  world.AllGather(mine.data(), all.data(), int64_t(kRounds), DType::kI64);
  // Ranks of one host share a clock, so its first rank speaks for all.
  size_t speaker = size_t(std::find(hosts.begin(), hosts.end(), hosts[size_t(world.rank())]) - hosts.begin());
  std::vector<int64_t> ahead(kRounds);
  for (size_t i = 0; i < kRounds; i++) ahead[i] = all[speaker * kRounds + i] - all[i];
  std::nth_element(ahead.begin(), ahead.begin() + kRounds / 2, ahead.end());
  return ahead[kRounds / 2];
}

std::vector<int64_t> LastArrivals(const std::vector<RunProfile::Step>& steps, DeviceMesh& mesh, int64_t clock_offset) {
  std::vector<std::vector<int64_t>> begins(size_t(mesh.shape().num_axes()));
  std::vector<size_t> axes;  // of the collectives, in order
  for (const RunProfile::Step& step : steps)
    for (const RunProfile::ProgramRun& run : step.runs)
      for (const ProfiledBatch& batch : BatchesOf(run)) {
        if (!batch.is_collective()) continue;
        axes.push_back(size_t(batch.node().attrs.Int("axis")));
        begins[axes.back()].push_back(batch.span.begin - clock_offset);
      }
  for (size_t axis = 0; axis < begins.size(); axis++) {
    std::vector<int64_t>& of_axis = begins[axis];
    if (!of_axis.empty())
      mesh.Group(int(axis)).AllReduce(of_axis.data(), of_axis.data(), int64_t(of_axis.size()), DType::kI64,
                                      ReduceOp::kMax);
  }
  std::vector<size_t> next(begins.size());
  std::vector<int64_t> last;
  for (size_t axis : axes) last.push_back(begins[axis][next[axis]++] + clock_offset);
  return last;
}

}  // namespace weft
