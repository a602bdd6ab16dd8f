#include "launcher/command.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

absl::StatusOr<ConfigWords> Split(const std::string& command, const Words& words, const char* what,
                                  const char* expected) {
  auto bad = [&](const std::string& fault) {
    return absl::InvalidArgumentError(fmt::format("weft {0}: {1}\nweft {0} --help says how to use it", command, fault));
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
      return bad(fmt::format("expected one {} and then key=value, got {:?} and {:?}", what, split.path, word));
  }
  if (split.path.empty()) return bad(fmt::format("{} is missing; expected {}", what, expected));
  return split;
}

}  // namespace

absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words) {
  return Split(command, words, "CONFIG", "a YAML file such as configs/quickstart.yaml");
}

absl::StatusOr<ConfigWords> SplitModelWords(const std::string& command, const Words& words) {
  return Split(command, words, "CHECKPOINT or CONFIG",
               "the folder of a checkpoint, or a YAML file such as configs/quickstart.yaml");
}

Words WithoutFlag(const Words& words, const std::string& flag, const std::string& key) {
  Words plain;
  for (size_t i = 0; i < words.size(); i++) {
    bool takes_next = words[i] == flag && i + 1 < words.size();
    plain.push_back(takes_next                         ? key + "=" + words[++i]
                    : words[i].starts_with(flag + "=") ? key + words[i].substr(flag.size())
                                                       : words[i]);
  }
  return plain;
}

bool AsksForHelp(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "--help" || w == "-h"; });
}

}  // namespace weft
