// Converts one value of the config: a YAML node to a member, and a member to text. Strict: does not guess types.
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
  std::string what;    // what was expected and what was given; the reader adds position and key
  const YamlNode* at;  // the wrong value, or the wrong item in it
};

// Reads the entries of a mapping one by one. Returns a fault if a key occurs twice. `of` is " of a row", for example,
// or "".
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

// Returns the value of a command-line argument key=text. Text that begins like a list, a mapping or a quoted string is
// parsed as YAML. Any other text is taken literally, so that no path needs quoting twice. Refuses text that is not
// UTF-8, because logs and checkpoints store it.
absl::StatusOr<YamlNode> WordValue(const std::string& key, const std::string& text);

// Sets the member of `field`, or returns why it cannot.
std::optional<ValueFault> SetValue(const Field& field, const YamlNode& node, Config& config);
// Sets `ref` and ignores field.ref.
std::optional<ValueFault> SetValue(const Field& field, FieldRef ref, const YamlNode& node);

// Returns the member's value as YAML, or "" if it is unset (an empty path or list, or a size not known yet).
std::string PrintValue(const Field& field, const Config& config);
std::string PrintValue(const Field& field, FieldRef ref);

}  // namespace weft
