// PlannedStep: the training step of a config, planned for one rank of its mesh. Needs no devices and no other ranks.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "weft/core/predict/step_time.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/plan_group.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/config/config.h"

namespace weft {

// Returns the device that a resolved config is planned for.
DeviceKind PlannedDevice(const Config& config);

class PlannedStep {
 public:
  // Requires a resolved config with model.vocab. With device: cuda it plans with the planned rows of the CUDA kernels
  // (planned_rows.h), which needs neither a GPU nor the CUDA library. Throws Error if the config cannot be planned.
  explicit PlannedStep(const Config& config);
  PlannedStep(const PlannedStep&) = delete;
  PlannedStep& operator=(const PlannedStep&) = delete;

  const Runtime& runtime() const { return runtime_; }
  DeviceKind device() const { return runtime_.device; }
  TrainingStep& step() { return *step_; }
  const TrainingStep& step() const { return *step_; }
  const StepPlans& plans() const { return *plans_; }

  // Returns how the memory of the step's collectives is mapped into other ranks, "" if it is not.
  std::string memory() const;
  // Returns the work of each plan of a step, and how often it runs in one.
  std::vector<std::pair<PlanWork, int>> WorkOfStep() const;

 private:
  Context context_;
  PlanGroupFactory groups_;
  std::optional<DeviceMesh> mesh_;
  Runtime runtime_;
  std::optional<TrainingStep> step_;
  std::optional<StepPlans> plans_;
};

// Returns the time of a step. Returns an error as Rates::MillisecondsOf does.
absl::StatusOr<StepTime> TimeOf(const PlannedStep& planned, const Rates& rates);

}  // namespace weft
