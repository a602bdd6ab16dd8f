// What weft plan prints of a config: every collective of a training step, the memory of a rank, the FLOPs of a step.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/comm_plan.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/config.h"

namespace weft {

struct PlanReport {
  std::vector<CommLine> lines;
  MemoryNeed memory;
  DeviceKind device = DeviceKind::kCpu;
  std::string fullest, largest_workspace;  // where memory is, in words
  double flops = 0;
  std::string kernels;               // which of several ways they take; see KernelChoices
  std::vector<std::string> inlined;  // ops taken apart because a dim that they need whole is sharded
};

// The config is resolved, vocab too. device: cuda plans with the kernels of the CUDA library, which needs no GPU;
// throws Error where that is not there.
PlanReport MakePlanReport(const Config& config);
std::string ToText(const PlanReport& report);
std::string ToJson(const PlanReport& report);

}  // namespace weft
