// parallel.plan: the name of a plan, a file, or {base: megatron, rows: [{module: "*.mlp.up", at: weight, tp:
// shard(1)}]}. A file holds the same mapping.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/train/config/config.h"
#include "weft/train/config/config_value.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

inline constexpr const char* kPlanForms = "{base, rows: [{module, at, AXIS: shard(d) or replicate}]}";

// Reads a value of the key. A file is only named in `plan`; LoadPlan reads it.
std::optional<ValueFault> ReadPlan(const YamlNode& node, PlanConfig& plan);
// "" where nothing is set.
std::string PrintPlan(const PlanConfig& plan);

// Reads the rows of plan.file, if there is one, and fills a base that is not given with the family's. Returns what is
// wrong, place included, or "".
std::string LoadPlan(Config& config);

// The plan of a run on a mesh: the base, then the rows.
ShardingPlan PlanOf(const Config& config, const MeshShape& mesh);
// The rows alone; errors about them begin with their places.
std::vector<ShardingPlan::Row> RowsOf(const Config& config);

}  // namespace weft
