// What weft plan prints of a config: what a training step computes, moves and holds.
#pragma once
#include <string>
#include <vector>

#include "weft/core/compile/comm_plan.h"
#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/config.h"
#include "weft/train/data/data_need.h"

namespace weft {

struct PlanReport {
  std::string model;  // "gpt2, 12 blocks"
  int64_t parameters = 0;
  MeshShape mesh;
  int64_t global_batch = 0, micro_batch = 0;  // sequences: of a step, of a micro-batch
  int64_t context = 0;                        // tokens of a sequence
  int micro_steps = 1;
  std::vector<CommLine> lines;
  MemoryNeed memory;  // of a rank
  DataNeed data;      // part of `memory`
  DeviceKind device = DeviceKind::kCpu;
  std::string fullest, largest_workspace;  // where memory is, in words
  double flops = 0;                        // in the products of a step, all ranks together
  std::string kernels;                     // which of several ways they take; see KernelChoices
  std::vector<std::string> inlined;        // ops taken apart because a dim that they need whole is sharded
};

// The config is resolved, vocab too. device: cuda plans with the rows of the CUDA kernels (planned_rows.h), which needs
// neither a GPU nor the CUDA library.
PlanReport MakePlanReport(const Config& config);
// A summary. `verbose` adds each collective, and the exact bytes.
std::string ToText(const PlanReport& report, bool verbose);
// All of it, with the exact numbers.
std::string ToJson(const PlanReport& report);

std::string FlopsText(double flops);  // "7.537 MFLOP"

}  // namespace weft
