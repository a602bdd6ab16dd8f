#include "weft/train/config/pattern_check.h"

#include <algorithm>
#include <memory>

#include "fmt/format.h"
#include "weft/core/ir/builder.h"
#include "weft/parallel/nn/plan_check.h"
#include "weft/parallel/step/micro_step.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/config/config_check.h"
#include "weft/train/config/model_of.h"
#include "weft/train/config/plan_value.h"

namespace weft {
namespace {

using Names = std::vector<std::string>;

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

std::string RowsInConflict(const Config& config) {
  if (config.parallel.plan.rows.empty() || config.mesh.ranks() == 1) return "";
  StepOptions options = StepOptionsOf(config);
  TransformerConfig sizes = ModelOf(config);
  if (sizes.vocab == 0) sizes.vocab = 256;  // unknown before the tokenizer is read, and at least that of bytes
  try {
    TrainingStep step(sizes, options);
  } catch (const Error& error) {
    return fmt::format("{}no rank can compute its part by these rows: {}; change the rows for this module",
                       PlaceOf(config, "parallel.plan"), error.what());
  }
  return "";
}

std::vector<std::string> RowsWithoutEffect(const Config& config) {
  if (config.parallel.plan.rows.empty()) return {};
  TransformerConfig sizes = ModelOf(config);
  sizes.vocab = std::max<int64_t>(sizes.vocab, 1);  // no path depends on it
  std::unique_ptr<Model> model = MakeModel(sizes);
  Names lines, parameters = PathsOf(model->Parameters());
  for (const ShardingPlan::Row& row : RowsOf(config)) {
    if (!HasPoint(row, parameters))
      lines.push_back(
          fmt::format("{}the row of {:?} has no effect, as no module that it matches has a {}; give another "
                      "module or point, or remove it",
                      row.source, row.module, row.point));
  }
  return lines;
}

}  // namespace weft
