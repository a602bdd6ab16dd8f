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

// Reads a value of the key.
std::optional<ValueFault> ReadGroups(const YamlNode& node, std::vector<OptimizerGroup>& groups);
// "" where there are none.
std::string PrintGroups(const std::vector<OptimizerGroup>& groups);

// The optimizer of a run. A group with another optimizer has the options that the config gives, and for the others the
// defaults of its own optimizer.
Optimizer OptimizerOf(const Config& config);
// Whether some group has another optimizer and the config does not give the key: then each has its own default.
bool LeftToOptimizers(const Config& config, const std::string& key);
// Whether an optimizer of the run reads this key: "betas".
bool AnyOptimizerReads(const Config& config, std::string_view key);

}  // namespace weft
