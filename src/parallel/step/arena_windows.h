// Arena windows: which collectives of a training step reach the memory of other ranks directly, and the memory of a
// step's arena for them (nccl_windows.h).
#pragma once
#include <vector>

#include "absl/status/status.h"
#include "weft/dist/group/nccl/nccl_windows.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

// Returns the windows of a step's arena on GPUs: with GatherMode::kCopy for copy engines over the axes over which it
// gathers weights or activations into its arena or exchanges the terms of sums (precision.wire), and with
// `symmetric_memory` for kernels over those with a collective from its arena into its arena. `plans` may be null.
std::vector<WindowUse> WindowsOf(const StepOptions& options, const StepPlans* plans, DeviceKind device);

// Returns an error if the options ask for copies (kCopy) and a step has no calls for them.
absl::Status CheckGather(const StepOptions& options, const StepPlans* plans, DeviceKind device);

// Returns an error if the options ask for symmetric memory and a step has no collectives for it.
absl::Status CheckSymmetric(const StepOptions& options, const StepPlans* plans, DeviceKind device);
// Returns a hash of where the plan's collectives read and write.
uint64_t WindowLayoutOf(const Plan& plan);

// Allocates the arena that the programs of a step share, with its windows. Collective over the mesh if the device is a
// GPU. Throws Error, on all ranks, if it cannot have windows that the options ask for.
BufferPtr AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime);

}  // namespace weft
