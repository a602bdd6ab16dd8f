// One value of the config: YAML node to member, and member to text. Strict: no guessing between types.
#pragma once
#include <optional>
#include <set>
#include <string>
#include <string_view>

#include "fmt/format.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/io/yaml_node.h"

namespace weft {

struct ValueFault {
  std::string what;    // what was expected and what came; the reader adds place and key
  const YamlNode* at;  // the value or the item of it that is wrong
};

// Reads the entries of a mapping in a value one by one; a key that comes again is a fault. `of`: " of a row", or "".
template <class Read>
std::optional<ValueFault> ReadEntries(const YamlNode& map, std::string_view of, Read read) {
  std::set<std::string_view> keys;
  for (const YamlEntry& entry : map.entries) {
    if (!keys.insert(entry.key).second)
      return ValueFault{fmt::format("{}{} is given twice; remove one", entry.key, of), &entry.value};
    if (std::optional<ValueFault> fault = read(entry)) return fault;
  }
  return std::nullopt;
}

bool Within(const Bounds& bounds, double value);

// The value of a word key=text of the command line: lists, mappings and quotes are YAML; all else is taken as it
// stands, so that no path needs quoting twice. Refuses text that is not UTF-8, because logs and checkpoints hold it.
absl::StatusOr<YamlNode> WordValue(const std::string& key, const std::string& text);

// Sets the member that `field` names, or leaves it and says why not.
std::optional<ValueFault> SetValue(const Field& field, const YamlNode& node, Config& config);
// Sets `ref`, whatever field.ref is.
std::optional<ValueFault> SetValue(const Field& field, FieldRef ref, const YamlNode& node);

// The member's value as YAML; "" where it is unset (an empty path or list, a size not known yet).
std::string PrintValue(const Field& field, const Config& config);
std::string PrintValue(const Field& field, FieldRef ref);

}  // namespace weft
