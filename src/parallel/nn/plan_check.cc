#include "weft/parallel/nn/plan_check.h"

#include <algorithm>
#include <cctype>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/host/suggest.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

// Whether a path is in the first block or in none. Other blocks have the same paths.
bool IsExample(const std::string& path) {
  std::vector<std::string> parts = absl::StrSplit(path, '.');
  return !path.empty() && std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return !part.empty() && std::isdigit(uint8_t(part[0])) && part != "0";
  });
}

bool IsParameter(const std::string& point) { return point != "input" && point != "output" && point != "product"; }

// Returns "; did you mean "*.attn"?", or "" if no module has a similar name. A pattern is compared with paths of
// modules and with patterns of their last names.
std::string SimilarModule(const std::string& pattern, const Names& modules) {
  Names choices;
  for (const std::string& path : modules) {
    if (!IsExample(path)) continue;
    choices.push_back(path);
    choices.push_back("*." + std::string(LastPart(path)));
  }
  return DidYouMean(pattern, choices);
}

std::string FaultOf(const ShardingPlan::Row& row, const Names& modules, const Names& parameters) {
  if (std::string fault = Unmatched(row.module, "module", modules); !fault.empty())
    return fault + SimilarModule(row.module, modules);
  Names points = PointsOf(parameters);
  if (std::count(points.begin(), points.end(), row.point) == 0)
    return fmt::format("expected a point that is one of {}, got {:?}{}", fmt::join(points, ", "), row.point,
                       DidYouMean(row.point, points));
  if (HasPoint(row, parameters)) return "";
  return fmt::format("no module that {:?} matches has a {}; give another module or point, or remove the row",
                     row.module, row.point);
}

}  // namespace

Names PathsOf(const std::vector<const Parameter*>& parameters) {
  Names paths;
  for (const Parameter* p : parameters) paths.push_back(p->path());
  return paths;
}
Names PathsOf(const std::vector<const Module*>& modules) {
  Names paths;
  for (const Module* m : modules) paths.push_back(m->path());
  return paths;
}

std::string Unmatched(const std::string& pattern, const char* what, const Names& paths) {
  if (std::any_of(paths.begin(), paths.end(), [&](const std::string& path) { return MatchesGlob(pattern, path); }))
    return "";
  Names shown;
  std::copy_if(paths.begin(), paths.end(), std::back_inserter(shown), IsExample);
  return fmt::format("{:?} matches no {} of the model, which has {}", pattern, what, fmt::join(shown, ", "));
}

Names PointsOf(const Names& parameters) {
  Names points{"weight", "bias", "input", "output", "product"};
  for (const std::string& path : parameters) {
    std::string name = path.substr(path.rfind('.') + 1);  // of the whole path if it has no dot
    if (std::count(points.begin(), points.end(), name) == 0) points.push_back(name);
  }
  return points;
}

std::string UnknownPoint(const ShardingPlan::Row& row, const Names& points) {
  if (std::count(points.begin(), points.end(), row.point) > 0) return "";
  return fmt::format("expected at as one of {}, got {:?}{}", fmt::join(points, ", "), row.point,
                     DidYouMean(row.point, points));
}

// Parameters of the model itself have no dot in their paths.
bool HasPoint(const ShardingPlan::Row& row, const Names& parameters) {
  if (!IsParameter(row.point)) return true;
  return std::any_of(parameters.begin(), parameters.end(), [&](const std::string& path) {
    size_t dot = path.rfind('.');
    bool top = dot == path.npos;
    return path.substr(top ? 0 : dot + 1) == row.point && MatchesGlob(row.module, top ? "" : path.substr(0, dot));
  });
}

void CheckPlan(const ShardingPlan& plan, const Module& model, const std::string& at) {
  Names modules = PathsOf(model.Modules()), parameters = PathsOf(model.Parameters());
  for (const ShardingPlan::Row& row : plan.rows()) {
    if (row.optional) continue;
    std::string fault = FaultOf(row, modules, parameters);
    if (!fault.empty())
      throw PlanError(
          fmt::format("{}: the row {{{:?}, {:?}}} of the plan has no effect: {}; a row that may match "
                      "nothing has .optional = true",
                      at, row.module, row.point, fault));
  }
}

}  // namespace weft
