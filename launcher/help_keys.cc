#include "launcher/help_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>

#include "weft/core/host/message.h"
#include "weft/train/config/config_schema.h"
#include "weft/train/io/suggest.h"

namespace weft {
namespace {

// The name under which keys without a section are listed.
constexpr const char* kTop = "top";

Words Sections() {
  Words names = SectionNames();
  std::replace(names.begin(), names.end(), std::string(), std::string(kTop));
  return names;
}

void PrintKeys(const std::string& section) {
  for (const std::string& key : KeysOf(section == kTop ? "" : section)) {
    const Field& field = *FindField(key);
    PrintStdout("{}\n    {}\n    {}; default: {}\n", key, field.help,
                field.type_text ? field.type_text : TypeText(field), DefaultText(field));
  }
}

}  // namespace

int HelpKeys(const Words& words) {
  Words sections = Sections();
  if (words.empty()) {
    PrintStdout("The keys of a config, by section; weft help keys SECTION says more.\n\n");
    for (const std::string& section : sections)
      PrintStdout("{}\n    {}\n", section, fmt::join(KeysOf(section == kTop ? "" : section), "\n    "));
    return 0;
  }
  std::string section = words[0].substr(0, words[0].find('.'));
  if (FindField(section)) section = kTop;
  if (words.size() > 1 || std::find(sections.begin(), sections.end(), section) == sections.end()) {
    std::string nearest = Nearest(section, sections);
    PrintStderr("weft help keys: expected one section of {}, got {:?}{}\n", fmt::join(sections, ", "), words.back(),
                nearest.empty() || nearest == section ? "" : fmt::format("; did you mean {}?", nearest));
    return 2;
  }
  PrintKeys(section);
  return 0;
}

}  // namespace weft
