// From a Config to what it describes: model sizes and the options of a step.
#pragma once
#include "parallel/train/config.h"
#include "parallel/train/program.h"

namespace weft {

MeshShape MeshOf(const Config& config);           // {"dp", "tp"}; the config is resolved
TransformerConfig ModelOf(const Config& config);  // vocab is resolved
StepOptions StepOptionsOf(const Config& config);
// Bytes per rank of the State, by category, without allocating anything.
struct StateBytes {
  int64_t parameters = 0, moments = 0, copies = 0, accumulators = 0, slots = 0;  // slots: and the loss scale
  int64_t Total() const { return parameters + moments + copies + accumulators + slots; }
};
StateBytes StateBytesOf(Transformer& model, const StepOptions& options, const StepPrograms& programs);

}  // namespace weft
