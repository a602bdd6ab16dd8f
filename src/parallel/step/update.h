// The update: the sums of the global batch into new parameters and moments.
#pragma once
#include <vector>

#include "weft/parallel/step/micro_step.h"

namespace weft {

// Outputs "loss", "grad_norm", "count" and those of DecideUpdate where the loss is scaled; writes the parameters and
// what the optimizer keeps of them.
struct UpdateResult {
  std::vector<NamedValue> outputs, writes;
};
// Inside a builder and the model's scope.
UpdateResult Update(Model& model, const StepOptions& options, const MicroSums& sums);

// The entries that it keeps from step to step.
std::vector<EntryInfo> UpdateEntries(const Model& model, const StepOptions& options);

}  // namespace weft
