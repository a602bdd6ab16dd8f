#include "launcher/command.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words) {
  auto bad = [&](const std::string& what) {
    return absl::InvalidArgumentError(fmt::format("weft {0}: {1}\nweft {0} --help says how to use it", command, what));
  };
  ConfigWords split;
  for (const std::string& word : words) {
    if (word.find('=') != std::string::npos)
      split.overrides.push_back(word);
    else if (word.starts_with('-'))
      return bad(fmt::format("unknown flag {:?}; a key of the config is set as key=value", word));
    else if (split.path.empty())
      split.path = word;
    else
      return bad(fmt::format("expected one CONFIG and then key=value, got {:?} and {:?}", split.path, word));
  }
  if (split.path.empty()) return bad("CONFIG is missing; expected a YAML file such as configs/quickstart.yaml");
  return split;
}

bool AsksForHelp(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "--help" || w == "-h"; });
}

}  // namespace weft
