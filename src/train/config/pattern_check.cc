#include "weft/train/config/pattern_check.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/train/config/config_check.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

// Whether a path is of the first block, or of none: the other blocks have the same.
bool IsExample(const std::string& path) {
  std::vector<std::string> parts = absl::StrSplit(path, '.');
  return !path.empty() && std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && std::isdigit(uint8_t(part[0])) && part != "0";
  });
}

// What is wrong with a pattern that matches none of the paths, else "".
std::string Unmatched(const std::string& pattern, const char* what, const Names& paths) {
  if (std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return MatchesGlob(pattern, path); }))
    return "";
  Names shown;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(shown), IsExample);
  return fmt::format("{:?} matches no {} of the model, which has {}", pattern, what, fmt::join(shown, ", "));
}

Names PathsOf(const std::vector<const Parameter*>& parameters) {
  Names paths;
  for (const Parameter* p : parameters) paths.push_back(p->path());
  return paths;
}
}  // namespace

std::vector<std::string> PatternFaults(const Config& config, Model& model) {
  Names faults;
  Names parameters = PathsOf(model.Parameters());
  for (const OptimizerGroup& group : config.optimizer.groups)
    if (std::string what = Unmatched(group.match, "parameter", parameters); !what.empty())
      faults.push_back(PlaceOfItem(config, "optimizer.groups", {group.line, group.column}) + what);
  return faults;
}

}  // namespace weft
