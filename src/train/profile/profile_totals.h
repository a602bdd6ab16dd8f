// ProfileTotals: where the time of profiled steps went, in sums over calls, steps and ranks, and as a table for people.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/dist/group/process_group.h"
#include "weft/train/profile/profiled_batch.h"

namespace weft {

struct ProfileTotals {
  // Times in nanoseconds.
  struct Kernels {
    double calls = 0, time = 0, bytes = 0, flops = 0;
  };
  struct Collectives {
    double calls = 0, time = 0, waiting = 0, bytes = 0;  // bytes: handed over
  };
  double steps = 0, step_time = 0;
  double kernel_time = 0, collective_time = 0, waiting = 0;
  double covered = 0;  // of the steps, by a kernel or a collective
  // By op, module and phase; numbers of modules are "*", so that the blocks of a model are one.
  std::map<std::tuple<std::string, std::string, std::string>, Kernels> kernels;
  std::map<std::pair<std::string, std::string>, Collectives> collectives;  // by op and axis

  void AddKernel(const ProfiledBatch& batch);
  void AddCollective(const ProfiledBatch& batch, const std::string& axis, int64_t waiting_time, int64_t handed);
  // The sums over all ranks, on each of them. Called by all ranks alike, with profiles of the same programs.
  void SumOverRanks(ProcessGroup& world);

  double Share(double time) const { return step_time > 0 ? time / step_time : 0; }

 private:
  std::vector<double*> Numbers();
};

// "blocks.11.mlp" as "blocks.*.mlp".
std::string FoldedScope(const std::string& scope);
// The kernels and the collectives that take most, of lines of 80 columns at most. Times are those of a step of a rank.
std::string ProfileTable(const ProfileTotals& totals);

}  // namespace weft
