// Checks the patterns of a config (optimizer.groups, rows of parallel.plan) against its model.
#pragma once
#include <string>
#include <vector>

#include "weft/parallel/nn/model.h"
#include "weft/train/config/config.h"

namespace weft {

// Returns one line per fault, with its position: a pattern or a point that matches nothing, or a shard of a dim that a
// tensor lacks.
std::vector<std::string> PatternFaults(const Config& config, Model& model);
// Returns the fault of rows of parallel.plan that contradict each other on the config's mesh, with its position, or "".
// Requires a resolved mesh. Traces and shards a step, which takes milliseconds, and only for a config with rows.
std::string RowsInConflict(const Config& config);
// Returns one line, in the form of UnusedKeys, per row of parallel.plan that names a parameter which no matching
// module has. For example, a head tied to the embedding has no weight of its own.
std::vector<std::string> RowsWithoutEffect(const Config& config);

}  // namespace weft
