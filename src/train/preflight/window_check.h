// Checks that a step has the collectives that parallel.gather: copy and parallel.symmetric_memory ask for.
#pragma once
#include "absl/status/status.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/config/config.h"

namespace weft {

// Refuses the key that asks for calls which the step lacks on this device. `plans` is null if it is not compiled.
absl::Status CheckWindows(const Config& config, const StepOptions& options, const StepPlans* plans, DeviceKind device);

}  // namespace weft
