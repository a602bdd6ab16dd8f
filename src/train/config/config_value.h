// One value of the config: YAML node to member, and member to text. Strict: no guessing between types.
#pragma once
#include <optional>
#include <string>

#include "weft/train/config/config_schema.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

struct ValueFault {
  std::string what;    // what was expected and what came; the reader adds place and key
  const YamlNode* at;  // the value or the item of it that is wrong
};

// Sets the member that `field` names, or leaves it and says why not.
std::optional<ValueFault> SetValue(const Field& field, const YamlNode& node, Config& config);

// The member's value as YAML; "" where it is unset (an empty path or list, a size not known yet).
std::string PrintValue(const Field& field, const Config& config);

}  // namespace weft
