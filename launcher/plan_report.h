// What weft plan prints of a config: every collective of a training step, the memory of a rank, the FLOPs of a step.
#pragma once
#include <string>
#include <vector>

#include "core/compile/comm_plan.h"
#include "parallel/train/setup.h"

namespace weft {

struct PlanReport {
  std::vector<CommLine> lines;
  StateBytes state;
  int64_t arena = 0;  // that all programs of a run share
  double flops = 0;
  std::vector<std::string> inlined;  // ops taken apart because a dim that they need whole is sharded
  int64_t TotalBytes() const { return state.Total() + arena; }
};

PlanReport MakePlanReport(const Config& config);  // resolved, vocab too
std::string ToText(const PlanReport& report);
std::string ToJson(const PlanReport& report);

}  // namespace weft
