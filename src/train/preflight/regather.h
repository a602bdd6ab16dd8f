// Decides parallel.regather: auto. With fsdp: full, weights gathered for the forward pass are either gathered again for
// the backward pass, or kept. Keeping them saves one gather of all weights per step, and costs their memory.
#pragma once
#include <cstddef>

#include "weft/core/compile/runtime.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/step_options.h"
#include "weft/train/config/config.h"

namespace weft {

// The part of a GPU's memory that a run leaves to CUDA: its context, its libraries, cuDNN's scratch, the step's graph.
inline constexpr size_t kReservedBytes = size_t(3) << 30;

// Whether memory decides: parallel.regather is auto, and the run could keep weights.
bool AsksForMemory(const Config& config, const StepOptions& options, DeviceKind device);
// Returns whether to gather again. `options` are the config's, except for this decision. `total` is the device's memory
// in bytes; 0 means unknown, and counts as enough. A budget of train.recompute counts as memory, if as much as possible
// is computed again. A run that cannot keep weights, such as one on the CPU, gathers again.
bool Regathers(const Config& config, const StepOptions& options, const Runtime& runtime, size_t total);

// Returns the options of a run's step on this device: those of the config with this decision and that of recompute.h.
// They are the same on all ranks, and all ranks must call this function. Throws ConfigError if a budget is too small.
StepOptions RunOptionsOf(const Config& config, const Context& context, DeviceMesh& mesh, DeviceKind device);

}  // namespace weft
