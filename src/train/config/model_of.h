// From a Config to what it describes: model sizes and the options of a step.
#pragma once
#include "weft/parallel/step/runner.h"
#include "weft/train/config/config.h"

namespace weft {

MeshShape MeshOf(const Config& config);           // {"dp", "tp"}; the config is resolved
TransformerConfig ModelOf(const Config& config);  // vocab is resolved
StepOptions StepOptionsOf(const Config& config);
ExecutorKind ExecutorOf(const Config& config);
Numerics NumericsOf(const Config& config);  // for the context, before anything is planned

}  // namespace weft
