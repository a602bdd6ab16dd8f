#include "launcher/command.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace {

absl::Status Bad(const std::string& command, const std::string& fault) {
  return absl::InvalidArgumentError(fmt::format("weft {0}: {1}\nweft {0} --help says how to use it", command, fault));
}

absl::StatusOr<ConfigWords> Split(const std::string& command, const Words& words, const char* what) {
  ConfigWords split;
  for (const std::string& word : words) {
    if (SetsKey(word))
      split.overrides.push_back(word);
    else if (word.starts_with('-'))
      return Bad(command, fmt::format("unknown flag {:?}; a key of the config is set as key=value", word));
    else if (split.path.empty())
      split.path = word;
    else
      return Bad(command, fmt::format("expected one {} and then key=value, got {:?} and {:?}", what, split.path, word));
  }
  return split;
}

}  // namespace

absl::StatusOr<ConfigWords> SplitWords(const std::string& command, const Words& words) {
  absl::StatusOr<ConfigWords> split = Split(command, words, "CONFIG");
  if (split.ok() && split->path.empty())
    return Bad(command, "CONFIG is missing; expected a YAML file such as configs/quickstart.yaml");
  return split;
}

absl::StatusOr<ConfigWords> SplitModelWords(const std::string& command, const Words& words) {
  return Split(command, words, "CHECKPOINT or CONFIG");
}

std::vector<Completion> CompletionsOf(std::span<const Option> options) {
  std::vector<Completion> completions;
  for (const Option& option : options) {
    bool is_switch = std::holds_alternative<bool*>(option.ref), flag = option.form == Option::kFlag;
    Completion c{.name = fmt::format("{}{}{}", flag ? "--" : "", option.field.key, is_switch && flag ? "" : "=")};
    c.values = option.field.choices;
    if (is_switch && !flag) c.values = {"true", "false"};
    if (auto* names = std::get_if<EnumRef>(&option.ref)) c.values.assign(names->names.begin(), names->names.end());
    completions.push_back(std::move(c));
  }
  return completions;
}

bool AsksForHelp(const Words& words) {
  return std::any_of(words.begin(), words.end(), [](const std::string& w) { return w == "--help" || w == "-h"; });
}

}  // namespace weft
