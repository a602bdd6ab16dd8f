// The update: turns the sums of the global batch into new parameters and moments.
#pragma once
#include <vector>

#include "weft/parallel/step/micro_step.h"

namespace weft {

// Outputs are "loss", "grad_norm" and "count" and, if the loss is scaled, those of DecideUpdate. Writes are the next
// values of the parameters, their copies, the optimizer's slots and the loss scale.
struct UpdateResult {
  std::vector<NamedValue> outputs, writes;
};
// Requires a current builder and the model's scope.
UpdateResult Update(const Module& model, const StepOptions& options, const MicroSums& sums);

// Returns the entries that the update keeps from step to step: the optimizer's slots and the loss scale.
std::vector<EntryInfo> UpdateEntries(const Module& model, const StepOptions& options);

}  // namespace weft
