// Copied gathers: which gathers of a training step the copy engines of GPUs make, and the memory of a step's arena for
// them.
#pragma once
#include <vector>

#include "absl/status/status.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

// Returns the axes of the mesh over which a step gathers by copy engines: with kCopy on GPUs, those over which it
// gathers weights or activations into its arena. `plans` may be null.
std::vector<int> CopiedAxes(const StepOptions& options, const StepPlans* plans, DeviceKind device);

// Returns an error if the options ask for copies (kCopy) and a step has no gathers for them.
absl::Status CheckGather(const StepOptions& options, const StepPlans* plans, DeviceKind device);

// Allocates the arena that the programs of a step share, for copied gathers if there are any. Collective over the mesh
// if the device is a GPU. With kCopy throws Error, on all ranks, if gathers cannot be copied.
BufferPtr AllocateArena(const TrainingStep& step, const StepPlans& plans, const Runtime& runtime);

}  // namespace weft
