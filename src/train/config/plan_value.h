// parallel.plan: the name of a plan, a file, or a mapping. A file contains the same mapping: {base: megatron, rows:
// [{module: "*.mlp.up", at: weight, tp: shard(1)}]}.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/train/config/config.h"
#include "weft/train/config/config_value.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

inline constexpr const char* kPlanForms = "{base, rows: [{module, at, AXIS: shard(d) or replicate}]}";

// Reads a value of parallel.plan. For a file, only stores its name in `plan`; LoadPlan reads it.
std::optional<ValueFault> ReadPlan(const YamlNode& node, PlanConfig& plan);
// Returns "" if nothing is set.
std::string PrintPlan(const PlanConfig& plan);

// Reads the rows of plan.file, if it is set. If no base is given, sets the family's. Returns an error with its
// position, or "".
std::string LoadPlan(Config& config);

// Returns the plan of a run on a mesh: the base followed by the rows.
ShardingPlan PlanOf(const Config& config, const MeshShape& mesh);
// Returns only the rows. Errors about them begin with their positions.
std::vector<ShardingPlan::Row> RowsOf(const Config& config);

}  // namespace weft
