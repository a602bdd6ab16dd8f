// The report of weft plan: what a training step of a config computes, communicates and stores.
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
  int64_t global_batch = 0, micro_batch = 0;  // sequences per step and per micro-batch
  int64_t context = 0;                        // tokens per sequence
  int micro_steps = 1;
  std::vector<CommLine> lines;
  MemoryNeed memory;  // of a rank
  DataNeed data;      // its tokens are included in `memory`
  DeviceKind device = DeviceKind::kCpu;
  std::string fullest, largest_workspace;  // the ops at which memory is fullest and the workspace is largest
  double flops = 0;                        // of the products of a step on all ranks together
  std::string weights;                     // what parallel.regather: auto chose; "" if it had no choice
  std::string recompute;                   // the mode of train.recompute and its cost; "" for none
  std::string kernels;                     // see KernelChoices
  std::vector<std::string> inlined;        // ops that were decomposed because a dim that they need whole is sharded
};

// Requires a resolved config with model.vocab. With device: cuda it plans with the planned rows of the CUDA kernels
// (planned_rows.h), which needs neither a GPU nor the CUDA library.
PlanReport MakePlanReport(const Config& config);
// Returns a summary. `verbose` adds every collective and the exact bytes.
std::string ToText(const PlanReport& report, bool verbose);
// Returns the collectives, the memory and the FLOPs with their exact numbers. For a GPU, adds the device, the staging
// memory and the kernels.
std::string ToJson(const PlanReport& report);

std::string FlopsText(double flops);  // "7.537 MFLOP"

}  // namespace weft
