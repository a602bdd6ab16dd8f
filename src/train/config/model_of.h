// From a Config to what it describes: model sizes and the options of a step.
#pragma once
#include "weft/parallel/step/runner.h"
#include "weft/train/config/config.h"

namespace weft {

// The axes of kMeshAxes that every mesh has, and those of other than one rank.
MeshShape MeshOf(const Config& config);
TransformerConfig ModelOf(const Config& config);  // vocab is resolved
// On the mesh that the ranks have made of it.
StepOptions StepOptionsOf(const Config& config, const MeshShape& mesh);
// Where there is no such mesh, as in planning.
inline StepOptions StepOptionsOf(const Config& config) { return StepOptionsOf(config, MeshOf(config)); }
ExecutorKind ExecutorOf(const Config& config);
Numerics NumericsOf(const Config& config);  // for the context, before anything is planned

}  // namespace weft
