// optimizer.groups: [{match: "*.norm*", lr_scale: 0.1, weight_decay: 0, optimizer: sgd}].
#pragma once
#include <optional>
#include <string>
#include <vector>

#include "weft/parallel/optimizer/optimizer.h"
#include "weft/train/config/config.h"
#include "weft/train/config/config_value.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

inline constexpr const char* kGroupsForm = "a list of {match, lr_scale, weight_decay, optimizer}";

// Reads a value of optimizer.groups.
std::optional<ValueFault> ReadGroups(const YamlNode& node, std::vector<OptimizerGroup>& groups);
// Returns "" if there are no groups.
std::string PrintGroups(const std::vector<OptimizerGroup>& groups);

// Returns the optimizer of a run. A group with another optimizer uses the options that the config gives, and its
// optimizer's defaults for the rest.
Optimizer OptimizerOf(const Config& config);
// Whether a group has another optimizer and the config does not give `key`, so that each optimizer uses its own
// default.
bool LeftToOptimizers(const Config& config, const std::string& key);
// Whether any optimizer of the run reads this key, for example "betas".
bool AnyOptimizerReads(const Config& config, std::string_view key);

}  // namespace weft
