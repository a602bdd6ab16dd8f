// ProfileTotals: where the time of profiled steps went, summed over calls, steps and ranks, and as a table for the
// terminal.
#pragma once
#include <cstdint>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "weft/dist/group/process_group.h"
#include "weft/train/profile/exposure.h"
#include "weft/train/profile/profiled_batch.h"

namespace weft {

struct ProfileTotals {
  // Times are in nanoseconds.
  struct Kernels {
    double calls = 0, time = 0, bytes = 0, flops = 0;
  };
  struct Collectives {
    double calls = 0, time = 0, exposed = 0, waiting = 0, bytes = 0;  // bytes: handed to the collective
  };
  double steps = 0, step_time = 0;
  // Waiting is part of the exposed time, during which a collective runs and no kernel (exposure.h).
  double kernel_time = 0, collective_time = 0, exposed = 0, waiting = 0;
  // By op, module and phase. Numbers in modules become "*", so that the blocks of a model share a row.
  std::map<std::tuple<std::string, std::string, std::string>, Kernels> kernels;
  std::map<std::pair<std::string, std::string>, Collectives> collectives;  // by op and axis

  void AddKernel(const ProfiledBatch& batch);
  void AddCollective(const ProfiledBatch& batch, const std::string& axis, const Exposed& exposed_time, int64_t handed);
  // Sums over all ranks; each gets the result. All ranks must call it, with profiles of the same programs.
  void SumOverRanks(ProcessGroup& world);

  double Share(double time) const { return step_time > 0 ? time / step_time : 0; }

 private:
  std::vector<double*> Numbers();
};

// Turns "blocks.11.mlp" into "blocks.*.mlp".
std::string FoldedScope(const std::string& scope);
// Returns the kernels and the collectives that take most time, in lines of at most 80 columns. Times are per step and
// rank.
std::string ProfileTable(const ProfileTotals& totals);

}  // namespace weft
