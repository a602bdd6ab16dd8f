#include "weft/train/config/pattern_check.h"

#include <algorithm>
#include <cctype>
#include <memory>

#include "absl/strings/str_split.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/ir/builder.h"
#include "weft/parallel/step/micro_step.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/plan_value.h"
#include "weft/train/io/yaml_value.h"

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

// Returns an error if the pattern matches none of the paths, otherwise "".
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
Names PathsOf(const std::vector<const Module*>& modules) {
  Names paths;
  for (const Module* m : modules) paths.push_back(m->path());
  return paths;
}

// The points that rows may name: those of every layer, and the names of the model's other parameters.
Names PointsOf(const Names& parameters) {
  Names points{"weight", "bias", "input", "output", "product"};
  for (const std::string& path : parameters) {
    std::string name = path.substr(path.rfind('.') + 1);  // of the whole path if it has no dot
    if (std::count(points.begin(), points.end(), name) == 0) points.push_back(name);
  }
  return points;
}

// Returns an error if the row names a point that no module has, otherwise "".
std::string UnknownPoint(const ShardingPlan::Row& row, const Names& points) {
  if (std::count(points.begin(), points.end(), row.point) > 0) return "";
  return fmt::format("expected at as one of {}, got {:?}{}", fmt::join(points, ", "), row.point,
                     DidYouMean(row.point, points));
}

bool IsParameter(const std::string& point) { return point != "input" && point != "output" && point != "product"; }

// Whether a module that the row matches has its parameter. Parameters of the model itself have no dot in their paths.
bool HasParameter(const ShardingPlan::Row& row, const Names& parameters) {
  return std::any_of(parameters.begin(), parameters.end(), [&](const std::string& path) {
    size_t dot = path.rfind('.');
    bool top = dot == path.npos;
    return path.substr(top ? 0 : dot + 1) == row.point && MatchesGlob(row.module, top ? "" : path.substr(0, dot));
  });
}

// The mesh has all axes, so that every row applies. Tracing shows the dims of the modules' inputs and outputs.
std::string DimFault(const Config& config, Model& model, std::vector<ShardingPlan::Row> rows) {
  StepOptions o;
  for (const MeshAxis& axis : kMeshAxes) {
    o.model.mesh.names.emplace_back(axis.name());
    o.model.mesh.sizes.push_back(2);
  }
  o.model.plan = ShardingPlan(std::move(rows));
  o.tokens = config.model.context;
  TraceBuilder trace({0, RandomPhase::kEval});
  BuilderScope builder(trace);
  ModelScope scope(o.model);
  try {
    EvalSums(model, o);
  } catch (const PlanError& error) {
    return error.what();
  }
  return "";
}

}  // namespace

std::vector<std::string> PatternFaults(const Config& config, Model& model) {
  Names faults;
  Names parameters = PathsOf(model.Parameters()), modules = PathsOf(model.Modules());
  for (const OptimizerGroup& group : config.optimizer.groups)
    if (std::string what = Unmatched(group.match, "parameter", parameters); !what.empty())
      faults.push_back(PlaceOfItem(config, "optimizer.groups", {group.line, group.column}) + what);
  std::vector<ShardingPlan::Row> rows = RowsOf(config);
  Names points = PointsOf(parameters);
  for (const ShardingPlan::Row& row : rows) {
    if (std::string what = UnknownPoint(row, points); !what.empty()) faults.push_back(row.source + what);
    if (std::string what = Unmatched(row.module, "module", modules); !what.empty()) faults.push_back(row.source + what);
  }
  if (!faults.empty() || rows.empty()) return faults;
  if (std::string fault = DimFault(config, model, std::move(rows)); !fault.empty()) faults.push_back(fault);
  return faults;
}

std::vector<std::string> RowsWithoutEffect(const Config& config) {
  if (config.parallel.plan.rows.empty()) return {};
  TransformerConfig sizes = ModelOf(config);
  sizes.vocab = std::max<int64_t>(sizes.vocab, 1);  // no path depends on it
  std::unique_ptr<Model> model = MakeModel(sizes);
  Names lines, parameters = PathsOf(model->Parameters());
  for (const ShardingPlan::Row& row : RowsOf(config)) {
    if (IsParameter(row.point) && !HasParameter(row, parameters))
      lines.push_back(
          fmt::format("{}the row of {:?} has no effect, as no module that it matches has a {}; give another "
                      "module or point, or remove it",
                      row.source, row.module, row.point));
  }
  return lines;
}

}  // namespace weft
