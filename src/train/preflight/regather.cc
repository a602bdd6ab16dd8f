#include "weft/train/preflight/regather.h"

#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/model_of.h"

namespace weft {

// The predicted peak decides, never what is free now: that differs between ranks and from run to run.
bool Regathers(const Config& config, const StepOptions& options, const Runtime& runtime, size_t total) {
  if (config.parallel.regather != RegatherMode::kAuto) return options.model.regather;
  bool asks = options.model.fsdp == Fsdp::kFull && options.model.mesh.num_ranks() > 1 &&
              runtime.device != DeviceKind::kCpu && ExecutorOf(config) == ExecutorKind::kCompiled;
  if (!asks) return true;
  if (total == 0) return false;
  StepOptions kept = options;
  kept.model.regather = false;
  TrainingStep step(ModelOf(config), kept);
  StepPlans plans = step.Compile(runtime);
  MemoryNeed need = MemoryNeedOf(step, &plans, runtime.device);
  if (!config.checkpoint.dir.empty()) need += SnapshotNeedOf(step, runtime.coords, runtime.device);
  return size_t(need.Total()) + kReservedBytes > total;
}

}  // namespace weft
