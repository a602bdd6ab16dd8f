#include "launcher/plan/planned_step.h"

#include "weft/dist/group/collectives.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/kernels/cuda/plan/planned_rows.h"
#include "weft/train/config/model_of.h"
#include "weft/train/preflight/config_error.h"
#include "weft/train/preflight/memory_check.h"
#include "weft/train/preflight/recompute.h"
#include "weft/train/preflight/regather.h"
#include "weft/train/preflight/window_check.h"

namespace weft {
namespace {

// Fills the kernel table of a run on this device. Nothing runs here, so for a GPU the planned rows are enough.
void Register(KernelTable& table, DeviceKind device) {
  if (device == DeviceKind::kCpu) RegisterCpuKernels(table);
  if (device == DeviceKind::kCuda) cuda::AddPlannedRows(table);
  RegisterCollectives(table, device);
}

}  // namespace

DeviceKind PlannedDevice(const Config& config) {
  return config.device == DeviceChoice::kCuda ? DeviceKind::kCuda : DeviceKind::kCpu;
}

PlannedStep::PlannedStep(const Config& config) : context_(0, StepOptionsOf(config).model.mesh.num_ranks()) {
  StepOptions options = StepOptionsOf(config);
  DeviceKind device = PlannedDevice(config);
  context_.set_numerics(NumericsOf(config, device));
  Register(context_.kernels(device), device);
  options.kernels = &context_.kernels(device);
  mesh_.emplace(context_, groups_, options.model.mesh, std::vector<DeviceKind>{device});
  mesh_->set_overlap(OverlapOf(config, device, /*one_host=*/true), int(config.parallel.chunks));
  runtime_ = RuntimeOf(context_, *mesh_, device);
  options.model.regather = Regathers(config, options, runtime_, DeviceBytes(config));
  options.recompute.share = RecomputeShare(config, options, runtime_, [](int64_t need) { return need; });
  step_.emplace(ModelOf(config), options);
  plans_ = step_->Compile(runtime_);
  absl::Status status = CheckWindows(config, options, &*plans_, device);
  if (!status.ok()) throw ConfigError(std::string(status.message()));
}

std::vector<std::pair<PlanWork, int>> PlannedStep::WorkOfStep() const {
  std::vector<std::pair<PlanWork, int>> work;
  if (plans_->accumulate)
    work.emplace_back(WorkOf(*plans_->accumulate, runtime_, memory()), step_->options().micro_steps - 1);
  work.emplace_back(WorkOf(plans_->step, runtime_, memory()), 1);
  return work;
}

std::string PlannedStep::memory() const {
  const StepOptions& options = step_->options();
  if (device() == DeviceKind::kCpu) return "";
  std::string kinds = options.gather == GatherMode::kCopy ? "copied" : "";
  if (options.symmetric_memory) kinds += kinds.empty() ? "symmetric" : " and symmetric";
  return kinds;
}

absl::StatusOr<StepTime> TimeOf(const PlannedStep& planned, const Rates& rates) {
  StepTime sum;
  for (const auto& [work, times] : planned.WorkOfStep()) {
    absl::StatusOr<StepTime> time = TimeOf(work, rates);
    if (!time.ok()) return time;
    sum += *time * times;
  }
  return sum;
}

}  // namespace weft
