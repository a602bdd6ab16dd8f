// What parallel.regather: auto comes to: whether weights that are gathered for the forward pass (fsdp: full) are
// gathered again for the backward pass, or kept. To keep them saves a gather of all weights a step, and costs their
// memory.
#pragma once
#include <cstddef>

#include "weft/core/compile/runtime.h"
#include "weft/parallel/step/step_options.h"
#include "weft/train/config/config.h"

namespace weft {

// Of a GPU's memory, what a run leaves to CUDA: its context, its libraries, cuDNN's scratch, the step's graph.
inline constexpr size_t kReservedBytes = size_t(3) << 30;

// `options` are those of the config, but for what is asked. `total`: the device's memory; 0: it is not known, and taken
// to be enough. The CPU gathers again.
bool Regathers(const Config& config, const StepOptions& options, const Runtime& runtime, size_t total);

}  // namespace weft
