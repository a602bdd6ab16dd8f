#include "weft/train/preflight/regather.h"

#include <algorithm>
#include <cstdint>

#include "weft/parallel/step/memory_need.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/memory_check.h"
#include "weft/train/preflight/recompute.h"

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
  if (HasBudget(config)) total = std::min(total ? total : SIZE_MAX, size_t(BudgetBytes(config)) + kReservedBytes);
  if (total == 0) return false;
  StepOptions kept = options;
  kept.model.regather = false;
  kept.recompute.share = 1;
  TrainingStep step(ModelOf(config), kept);
  StepPlans plans = step.Compile(runtime);
  MemoryNeed need = MemoryNeedOf(step, &plans, runtime.device);
  if (!config.checkpoint.dir.empty()) need += SnapshotNeedOf(step, runtime.coords, runtime.device);
  return size_t(need.Total()) + kReservedBytes > total;
}

StepOptions RunOptionsOf(const Config& config, const Context& context, DeviceMesh& mesh, DeviceKind device) {
  StepOptions options = StepOptionsOf(config, mesh.shape());
  options.kernels = &context.kernels(device);
  Runtime runtime = RuntimeOf(context, mesh, device);
  auto most = [&mesh](int64_t x) {
    mesh.World().AllReduce(&x, &x, 1, DType::kI64, ReduceOp::kMax);
    return x;
  };
  if (device != DeviceKind::kCpu) {
    size_t total = Bounded(runtime.memory().MemoryNow(), DeviceBytes(config)).total;
    options.model.regather = most(Regathers(config, options, runtime, total)) != 0;  // GPUs may differ
  }
  options.recompute.share = RecomputeShare(config, options, runtime, most);
  return options;
}

}  // namespace weft
