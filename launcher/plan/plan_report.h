// The report of weft plan: what a training step of a config computes, communicates and stores.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "launcher/plan/planned_step.h"
#include "launcher/plan/rates_file.h"
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
  size_t most = 0;  // bytes that device.memory lets a rank take; 0: it is not set, or the device is a CPU
  std::string fullest, largest_workspace;  // the ops at which memory is fullest and the workspace is largest
  double flops = 0;                        // of the products of a step on all ranks together
  std::string weights;                     // what parallel.regather: auto chose; "" if it had no choice
  std::string recompute;                   // the mode of train.recompute and its cost; "" for none
  std::string kernels;                     // see KernelChoices
  std::string joined;                      // what kernels.combine did; "" if it is off
  std::optional<StepTime> time;            // as predicted, if there are rates
  std::string rates;                       // what they are of: "NVIDIA H200 (h200.jsonl)"
  std::vector<std::string> inlined;        // ops that were decomposed because a dim that they need whole is sharded
};

// `planned` is the step of the config (see its constructor).
PlanReport MakePlanReport(const Config& config, PlannedStep& planned);
PlanReport MakePlanReport(const Config& config);
// Predicts the time of the step from rates. Errors say what the file lacks, and which command measures it.
absl::Status AddTime(const PlannedStep& planned, const RatesFile& file, PlanReport& report);
// Returns a summary. `verbose` adds every collective, the exact bytes and the time of every kernel.
std::string ToText(const PlanReport& report, bool verbose);
// Returns the collectives, the memory and the FLOPs with their exact numbers. For a GPU, adds the device, the staging
// memory and the kernels. With a predicted time, adds step_ms, its parts, the waits and the time of each kernel.
std::string ToJson(const PlanReport& report);

double TokensPerSecond(const PlanReport& report);  // of a device; requires a predicted time
std::string FlopsText(double flops);               // "7.537 MFLOP"

}  // namespace weft
