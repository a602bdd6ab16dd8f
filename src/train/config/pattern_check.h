// Patterns of a config (optimizer.groups, rows of parallel.plan) against the model that they are for.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/nn/model.h"
#include "weft/train/config/config.h"

namespace weft {

// One line a fault, place included: a pattern that matches nothing, a shard of a dim that a tensor lacks.
std::vector<std::string> PatternFaults(const Config& config, Model& model);
// One line for each row of parallel.plan that names a weight or bias that no matching module has, as UnusedKeys has
// them: a head that is tied to the embedding has no weight of its own, for example.
std::vector<std::string> RowsWithoutEffect(const Config& config);

}  // namespace weft
