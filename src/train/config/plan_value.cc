#include "weft/train/config/plan_value.h"

#include <algorithm>
#include <cctype>
#include <charconv>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/base/error.h"
#include "weft/parallel/nn/family/family.h"
#include "weft/train/config/config_check.h"
#include "weft/train/io/path_advice.h"
#include "weft/train/io/text_reader.h"
#include "weft/train/io/yaml_value.h"

namespace weft {
namespace {

constexpr const char* kKey = "parallel.plan";
constexpr size_t kMostRows = 1024;
constexpr uint64_t kMostPlanBytes = 1 << 20;

using Fault = std::optional<ValueFault>;
using Names = std::vector<std::string>;

Names PlanNames() {
  Names names;
  for (const NamedPlan* plan : NamedPlans()) names.emplace_back(plan->name);
  return names;
}
Names AxisNames() {
  Names names;
  for (const MeshAxis& axis : kMeshAxes) names.emplace_back(axis.name());
  return names;
}

// Whether the text may be the name of a point. The check against the model finds points that no module has.
bool MayBePoint(const YamlNode& node) {
  return node.kind == YamlNode::kScalar && !node.text.empty() && !std::isdigit(uint8_t(node.text[0])) &&
         std::all_of(node.text.begin(), node.text.end(), [](char c) { return std::isalnum(uint8_t(c)) || c == '_'; });
}
Fault OneOf(const char* what, const Names& choices, const YamlNode& node) {
  if (node.kind == YamlNode::kScalar && std::count(choices.begin(), choices.end(), node.text) > 0) return std::nullopt;
  return ValueFault{fmt::format("expected {} as one of {}, got {}{}", what, fmt::join(choices, ", "), Shown(node),
                                node.kind == YamlNode::kScalar ? DidYouMean(node.text, choices) : ""),
                    &node};
}

Fault ReadPlacement(const YamlEntry& entry, ShardingPlan::Row& row) {
  constexpr std::string_view kOpen = "shard(";
  constexpr int kMostDim = 99;  // the check against the model finds dims that a tensor lacks
  const YamlNode& value = entry.value;
  std::string_view text = value.kind == YamlNode::kScalar ? std::string_view(value.text) : std::string_view();
  if (text == "replicate") {
    row.placements.emplace_back(entry.key, Replicate());
    return std::nullopt;
  }
  int dim = -1;
  if (text.starts_with(kOpen) && text.ends_with(')')) {
    const char *begin = text.data() + kOpen.size(), *end = text.data() + text.size() - 1;
    auto [rest, error] = std::from_chars(begin, end, dim);
    if (error == std::errc() && rest == end && dim >= 0 && dim <= kMostDim) {
      row.placements.emplace_back(entry.key, Shard(dim));
      return std::nullopt;
    }
  }
  return ValueFault{fmt::format("expected the placement on {} as replicate or shard(d), d a dim from 0, got {}",
                                entry.key, Shown(value)),
                    &value};
}

Fault ReadRowKey(const YamlEntry& entry, ShardingPlan::Row& row) {
  const YamlNode& value = entry.value;
  if (entry.key == "module") {
    row.module = value.text;
    if (value.kind == YamlNode::kScalar) return std::nullopt;
    return ValueFault{fmt::format("expected the module of a row as a pattern of paths, got {}", Shown(value)), &value};
  }
  if (entry.key == "at") {
    row.point = value.text;
    if (MayBePoint(value)) return std::nullopt;
    return ValueFault{
        fmt::format("expected at as the name of a parameter, input, output or product, got {}", Shown(value)), &value};
  }
  Names axes = AxisNames();
  if (std::count(axes.begin(), axes.end(), entry.key) > 0) return ReadPlacement(entry, row);
  Names keys{"module", "at"};
  keys.insert(keys.end(), axes.begin(), axes.end());
  return ValueFault{fmt::format("{:?} is no key of a row, which has module, at and the axes {}{}", entry.key,
                                fmt::join(axes, ", "), DidYouMean(entry.key, keys)),
                    &value};
}

Fault ReadRow(const YamlNode& item, PlanConfig& plan) {
  if (item.kind != YamlNode::kMap)
    return ValueFault{fmt::format("expected a row {{module, at, AXIS}}, got {}", Shown(item)), &item};
  PlanRow row{.line = item.line, .column = item.column};
  auto read = [&](const YamlEntry& entry) { return ReadRowKey(entry, row.row); };
  if (Fault fault = ReadEntries(item, " of a row", read)) return fault;
  for (const char* key : {"module", "at"})
    if (std::none_of(item.entries.begin(), item.entries.end(), [&](const YamlEntry& e) { return e.key == key; }))
      return ValueFault{fmt::format("expected module and at in each row, got one without {}; add it", key), &item};
  if (row.row.placements.empty())
    return ValueFault{"expected a placement in each row, got one without; add tp: replicate, for example", &item};
  plan.rows.push_back(std::move(row));
  return std::nullopt;
}

Fault ReadRows(const YamlNode& node, PlanConfig& plan) {
  if (node.kind != YamlNode::kList)
    return ValueFault{fmt::format("expected rows as a list of {{module, at, AXIS}}, got {}", Shown(node)), &node};
  if (node.items.size() > kMostRows)
    return ValueFault{fmt::format("expected at most {} rows, got {}", kMostRows, node.items.size()), &node};
  for (const YamlNode& item : node.items)
    if (Fault fault = ReadRow(item, plan)) return fault;
  return std::nullopt;
}

Fault ReadPlanKey(const YamlEntry& entry, PlanConfig& plan) {
  if (entry.key == "rows") return ReadRows(entry.value, plan);
  if (entry.key == "base") {
    plan.base = entry.value.text;
    return OneOf("base", PlanNames(), entry.value);
  }
  return ValueFault{fmt::format("{:?} is no key of a plan, which has base and rows{}", entry.key,
                                DidYouMean(entry.key, {"base", "rows"})),
                    &entry.value};
}

Fault ReadMapping(const YamlNode& node, PlanConfig& plan) {
  return ReadEntries(node, "", [&](const YamlEntry& entry) { return ReadPlanKey(entry, plan); });
}

// Prints a row as YAML: "{module: "*.mlp.up", at: weight, tp: shard(1)}".
std::string Print(const ShardingPlan::Row& row) {
  std::string text = fmt::format("{{module: {}, at: {}", Quoted(row.module), row.point);
  for (const auto& [axis, p] : row.placements)
    text += p.kind == Placement::kShard ? fmt::format(", {}: shard({})", axis, int(p.dim))
                                        : fmt::format(", {}: replicate", axis);
  return text + "}";
}

std::string ReadPlanFile(Config& config) {
  PlanConfig& plan = config.parallel.plan;
  absl::StatusOr<std::string> text = ReadFile(plan.file, kMostPlanBytes);
  if (!text.ok()) return PlaceOf(config, kKey) + std::string(text.status().message()) + PathAdvice(plan.file);
  absl::StatusOr<YamlNode> root = ParseYaml(*text, plan.file);
  if (!root.ok()) return std::string(root.status().message());
  Fault fault;
  if (root->kind == YamlNode::kMap)
    fault = ReadMapping(*root, plan);
  else
    fault = ValueFault{fmt::format("expected a plan {}, got {}", kPlanForms, Shown(*root)), &*root};
  if (!fault) return "";
  const YamlNode& at = fault->at->kind == YamlNode::kNull ? *root : *fault->at;
  return fmt::format("{}:{}:{}: {}: {}", plan.file, std::max(at.line, 1), std::max(at.column, 1), kKey, fault->what);
}

}  // namespace

std::optional<ValueFault> ReadPlan(const YamlNode& node, PlanConfig& plan) {
  plan = {};
  if (node.kind == YamlNode::kMap) return ReadMapping(node, plan);
  Names names = PlanNames();
  bool scalar = node.kind == YamlNode::kScalar && !node.text.empty();
  bool named = scalar && std::count(names.begin(), names.end(), node.text) > 0;
  bool path = scalar && !named && node.text.find_first_of("./") != node.text.npos;
  if (named) plan.base = node.text;
  if (path && !IsOfHome(node)) plan.file = node.text;
  if (named || !plan.file.empty()) return std::nullopt;
  std::string hint = path ? HomeHint(node) : scalar ? DidYouMean(node.text, names) : "";
  return ValueFault{fmt::format("expected one of {}, a file as PATH.yaml, or {}, got {}{}", fmt::join(names, ", "),
                                kPlanForms, Shown(node), hint),
                    &node};
}

std::string PrintPlan(const PlanConfig& plan) {
  if (plan.rows.empty()) return plan.base;
  std::string rows;
  for (const PlanRow& row : plan.rows) rows += (rows.empty() ? "" : ", ") + Print(row.row);
  return fmt::format("{{base: {}, rows: [{}]}}", plan.base, rows);
}

std::string LoadPlan(Config& config) {
  PlanConfig& plan = config.parallel.plan;
  if (!plan.file.empty())
    if (std::string fault = ReadPlanFile(config); !fault.empty()) return fault;
  const ModelFamily* family = FindFamily(config.model.family);
  if (plan.base.empty() && family) plan.base = family->plan;  // a missing family is reported elsewhere
  return "";
}

std::vector<ShardingPlan::Row> RowsOf(const Config& config) {
  const PlanConfig& plan = config.parallel.plan;
  std::vector<ShardingPlan::Row> rows;
  for (const PlanRow& row : plan.rows) {
    rows.push_back(row.row);
    rows.back().source = PlaceOfItem(config, kKey, {row.line, row.column, plan.file});
  }
  return rows;
}

ShardingPlan PlanOf(const Config& config, const MeshShape& mesh) {
  const std::string& base = config.parallel.plan.base;
  const NamedPlan* named = FindPlan(base.empty() ? FindFamily(config.model.family)->plan : base);
  if (!named) Fail("parallel.plan: there is no " + base);
  ShardingPlan plan =
      named->make({.heads = config.model.heads,
                   .kv_heads = config.model.kv_heads,
                   .sequence_parallel = config.parallel.sequence_parallel && config.mesh[kTensorAxis] > 1,
                   .tie_embeddings = config.model.tie_embeddings},
                  mesh);
  plan.Append(RowsOf(config));
  return plan;
}

}  // namespace weft
