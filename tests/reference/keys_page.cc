#include <fmt/format.h>

#include "reference/pages.h"
#include "weft/train/config/config_schema.h"

namespace weft::reference {

std::string KeysPage(const Places&) {
  std::string text = Heading(
      "Keys of the config",
      "A config is a YAML file of these keys, and each of them can be overridden on the command line as `key=value`.\n"
      "[Configs and overrides](../guide/configs.md) has the rules.");
  for (const std::string& section : SectionNames()) {
    std::vector<std::vector<std::string>> rows;
    for (const std::string& key : KeysOf(section)) {
      const Field& field = *FindField(key);
      rows.push_back({Code(key), field.type_text ? field.type_text : TypeText(field), DefaultText(field), field.help});
    }
    text += fmt::format("\n## {}\n\n", section.empty() ? "Keys without a section" : section);
    text += Table({"key", "value", "default", "meaning"}, rows);
  }
  return text;
}

}  // namespace weft::reference
