// train.recompute: a mode by name, or {budget: GiB}.
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/train/config/config.h"
#include "weft/train/config/config_value.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

inline constexpr const char* kBudgetForm = "{budget: GiB}";

// Returns the modes that have a name, in the order of RecomputeMode.
std::vector<std::string> RecomputeNames();
std::optional<ValueFault> ReadRecompute(const YamlNode& node, RecomputeConfig& recompute);
std::string PrintRecompute(const RecomputeConfig& recompute);

}  // namespace weft
