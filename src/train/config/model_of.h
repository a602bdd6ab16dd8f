// Converts a Config to model sizes and step options.
#pragma once
#include "weft/parallel/step/runner.h"
#include "weft/train/config/config.h"

namespace weft {

// Returns the axes of kMeshAxes that every mesh has, and the others with more than one rank.
MeshShape MeshOf(const Config& config);
TransformerConfig ModelOf(const Config& config);  // requires a resolved model.vocab
// For the actual mesh of the ranks.
StepOptions StepOptionsOf(const Config& config, const MeshShape& mesh);
// For planning, when no such mesh exists.
inline StepOptions StepOptionsOf(const Config& config) { return StepOptionsOf(config, MeshOf(config)); }
ExecutorKind ExecutorOf(const Config& config);
// Returns what parallel.overlap means on this device. `one_host`: all ranks are on one host.
OverlapMode OverlapOf(const Config& config, DeviceKind device, bool one_host);
// To be set on the context before planning.
Numerics NumericsOf(const Config& config, DeviceKind device);

}  // namespace weft
