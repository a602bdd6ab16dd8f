#include "weft/train/preflight/regather.h"

#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/memory_check.h"

namespace weft {

bool AsksForMemory(const Config& config, const StepOptions& options, DeviceKind device) {
  return config.parallel.regather == RegatherMode::kAuto && options.model.fsdp == Fsdp::kFull &&
         options.model.mesh.num_ranks() > 1 && device != DeviceKind::kCpu &&
         ExecutorOf(config) == ExecutorKind::kCompiled;
}

// Uses the predicted peak and not the memory that is free now, which differs between ranks and between runs.
bool Regathers(const Config& config, const StepOptions& options, const Runtime& runtime, size_t total) {
  if (config.parallel.regather != RegatherMode::kAuto) return options.model.regather;
  if (!AsksForMemory(config, options, runtime.device)) return true;
  if (total == 0) return false;
  StepOptions kept = options;
  kept.model.regather = false;
  TrainingStep step(ModelOf(config), kept);
  StepPlans plans = step.Compile(runtime);
  MemoryNeed need = MemoryNeedOf(step, &plans, runtime.device);
  if (!config.checkpoint.dir.empty()) need += SnapshotNeedOf(step, runtime.coords, runtime.device);
  return size_t(need.Total()) + kReservedBytes > total;
}

StepOptions RunOptionsOf(const Config& config, const Context& context, DeviceMesh& mesh, DeviceKind device) {
  StepOptions options = StepOptionsOf(config, mesh.shape());
  options.kernels = &context.kernels(device);
  if (device == DeviceKind::kCpu) return options;
  Runtime runtime = RuntimeOf(context, mesh, device);
  size_t total = Bounded(runtime.memory().MemoryNow(), DeviceBytes(config)).total;
  int64_t regather = Regathers(config, options, runtime, total);
  mesh.World().AllReduce(&regather, &regather, 1, DType::kI64, ReduceOp::kMax);  // GPUs may differ
  options.model.regather = regather != 0;
  return options;
}

}  // namespace weft
