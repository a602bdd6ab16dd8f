#include "launcher/help_keys.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <string_view>

#include "weft/core/host/message.h"
#include "weft/core/host/suggest.h"
#include "weft/train/config/config_schema.h"

namespace weft {
namespace {

// The name under which keys without a section are listed.
constexpr const char* kTop = "top";

Words Sections() {
  Words names = SectionNames();
  std::replace(names.begin(), names.end(), std::string(), std::string(kTop));
  return names;
}

bool IsSection(const std::string& name) {
  Words sections = Sections();
  return std::ranges::find(sections, name) != sections.end();
}

Words KeysIn(const std::string& section) { return KeysOf(section == kTop ? "" : section); }

void PrintKey(const std::string& key) {
  const Field& field = *FindField(key);
  PrintStdout("{}\n    {}\n    {}; default: {}\n", key, field.help, field.type_text ? field.type_text : TypeText(field),
              DefaultText(field));
}

// Reports that `got` is not one of `names`.
int Refuse(const std::string& expected, const Words& names, const std::string& got) {
  std::string nearest = Nearest(got, names);
  PrintStderr("weft help keys: expected {} {}, got {:?}{}\n", expected, fmt::join(names, ", "), got,
              nearest.empty() || nearest == got ? "" : fmt::format("; did you mean {}?", nearest));
  return 2;
}

}  // namespace

bool NamesKeys(const std::string& word) { return FindField(word) || IsSection(word); }

int HelpKeys(const Words& words) {
  Words sections = Sections();
  if (words.empty()) {
    PrintStdout("The keys of a config, by section; weft help keys SECTION or KEY says more.\n\n");
    for (const std::string& section : sections)
      PrintStdout("{}\n    {}\n", section, fmt::join(KeysIn(section), "\n    "));
    return 0;
  }
  if (words.size() > 1) return Refuse("one section of", sections, words.back());
  const std::string& word = words[0];
  std::string section = word.substr(0, word.find('.'));
  if (FindField(word)) {
    // device has a value and is also the first part of device.memory.
    for (const Field& field : Schema())
      if (field.key == word || std::string_view(field.key).starts_with(word + ".")) PrintKey(field.key);
  } else if (!IsSection(section)) {
    return Refuse("one section of", sections, section);
  } else if (word != section) {
    return Refuse("a key of " + section + ":", KeysIn(section), word);
  } else {
    for (const std::string& key : KeysIn(section)) PrintKey(key);
  }
  return 0;
}

}  // namespace weft
