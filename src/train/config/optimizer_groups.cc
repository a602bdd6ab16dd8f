#include "weft/train/config/optimizer_groups.h"

#include <algorithm>

#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/base/error.h"
#include "weft/train/io/yaml_value.h"

namespace weft {
namespace {

constexpr size_t kMostGroups = 256;

using Fault = std::optional<ValueFault>;
using Names = std::vector<std::string>;

Names OptimizerNames() {
  Names names;
  for (const OptimizerRule* rule : OptimizerRules()) names.emplace_back(rule->name);
  return names;
}

Fault ReadNonNegative(const YamlEntry& entry, double& value) {
  if (ReadNumber(entry.value, value) && Within(kDecayBounds, value)) return std::nullopt;
  return ValueFault{fmt::format("expected the {} of a group as a number >= 0, got {}", entry.key, Shown(entry.value)),
                    &entry.value};
}

Fault ReadOptimizer(const YamlNode& value, OptimizerGroup& group) {
  group.optimizer = value.text;
  bool scalar = value.kind == YamlNode::kScalar;
  if (scalar && FindOptimizer(value.text)) return std::nullopt;
  Names names = OptimizerNames();
  return ValueFault{fmt::format("expected the optimizer of a group as one of {}, got {}{}", fmt::join(names, ", "),
                                Shown(value), scalar ? DidYouMean(value.text, names) : ""),
                    &value};
}

Fault ReadGroupKey(const YamlEntry& entry, OptimizerGroup& group) {
  const YamlNode& value = entry.value;
  if (entry.key == "match") {
    group.match = value.text;
    if (value.kind == YamlNode::kScalar && !value.text.empty()) return std::nullopt;
    return ValueFault{
        fmt::format("expected the match of a group as a pattern of parameter paths, got {}", Shown(value)), &value};
  }
  if (entry.key == "lr_scale") return ReadNonNegative(entry, group.lr_scale);
  if (entry.key == "weight_decay") return ReadNonNegative(entry, group.weight_decay.emplace());
  if (entry.key == "optimizer") return ReadOptimizer(value, group);
  return ValueFault{fmt::format("{:?} is no key of a group, which has match, lr_scale, weight_decay and optimizer{}",
                                entry.key, DidYouMean(entry.key, {"match", "lr_scale", "weight_decay", "optimizer"})),
                    &value};
}

Fault ReadGroup(const YamlNode& item, OptimizerGroup& group) {
  if (item.kind != YamlNode::kMap)
    return ValueFault{fmt::format("expected {}, got {} in it", kGroupsForm, Shown(item)), &item};
  group.line = item.line;
  group.column = item.column;
  auto read = [&](const YamlEntry& entry) { return ReadGroupKey(entry, group); };
  if (Fault fault = ReadEntries(item, " of a group", read)) return fault;
  if (!group.match.empty()) return std::nullopt;
  return ValueFault{"expected a match in each group, got one without; add match: PATTERN", &item};
}

// Returns the options of an optimizer that differs from optimizer.name.
OptimizerOptions OptionsOf(const Config& config, const OptimizerRule& rule) {
  const OptimizerConfig& c = config.optimizer;
  OptimizerOptions o = rule.defaults;
  if (config.Given("optimizer.betas")) o.beta1 = c.betas[0], o.beta2 = c.betas[1];
  if (config.Given("optimizer.eps")) o.eps = c.eps;
  if (config.Given("optimizer.momentum")) o.momentum = c.momentum;
  if (config.Given("optimizer.nesterov")) o.nesterov = c.nesterov;
  if (config.Given("optimizer.weight_decay")) o.weight_decay = c.weight_decay;
  return o;
}

const OptimizerRule& RuleNamed(const std::string& name) {
  const OptimizerRule* rule = FindOptimizer(name);
  if (!rule) Fail("optimizer.name: there is no " + name);
  return *rule;
}

}  // namespace

std::optional<ValueFault> ReadGroups(const YamlNode& node, std::vector<OptimizerGroup>& groups) {
  groups.clear();
  if (node.kind != YamlNode::kList)
    return ValueFault{fmt::format("expected {}, got {}", kGroupsForm, Shown(node)), &node};
  if (node.items.size() > kMostGroups)
    return ValueFault{fmt::format("expected at most {} groups, got {}", kMostGroups, node.items.size()), &node};
  for (const YamlNode& item : node.items)
    if (Fault fault = ReadGroup(item, groups.emplace_back())) return fault;
  return std::nullopt;
}

std::string PrintGroups(const std::vector<OptimizerGroup>& groups) {
  std::string list;
  for (const OptimizerGroup& g : groups) {
    list += fmt::format("{}{{match: {}, lr_scale: {}", list.empty() ? "[" : ", ", Quoted(g.match), g.lr_scale);
    if (g.weight_decay) list += fmt::format(", weight_decay: {}", *g.weight_decay);
    if (!g.optimizer.empty()) list += ", optimizer: " + g.optimizer;
    list += "}";
  }
  return list.empty() ? "" : list + "]";
}

Optimizer OptimizerOf(const Config& config) {
  const OptimizerConfig& c = config.optimizer;
  Optimizer optimizer{&RuleNamed(c.name),
                      {.beta1 = c.betas[0],
                       .beta2 = c.betas[1],
                       .eps = c.eps,
                       .momentum = c.momentum,
                       .nesterov = c.nesterov,
                       .weight_decay = c.weight_decay}};
  for (const OptimizerGroup& g : c.groups) {
    ParameterGroup group{.match = g.match, .lr_scale = g.lr_scale, .weight_decay = g.weight_decay};
    if (!g.optimizer.empty() && g.optimizer != c.name) {
      group.rule = &RuleNamed(g.optimizer);
      group.options = OptionsOf(config, *group.rule);
    }
    optimizer.groups.push_back(std::move(group));
  }
  return optimizer;
}

bool LeftToOptimizers(const Config& config, const std::string& key) {
  const OptimizerConfig& c = config.optimizer;
  bool another = std::any_of(c.groups.begin(), c.groups.end(),
                             [&](const OptimizerGroup& g) { return !g.optimizer.empty() && g.optimizer != c.name; });
  return another && !config.Given(key);
}

bool AnyOptimizerReads(const Config& config, std::string_view key) {
  const OptimizerConfig& c = config.optimizer;
  auto reads = [&](const std::string& name) {
    const OptimizerRule* rule = FindOptimizer(name);
    return !rule || rule->Reads(key);
  };
  return reads(c.name) || std::any_of(c.groups.begin(), c.groups.end(), [&](const OptimizerGroup& g) {
           return !g.optimizer.empty() && reads(g.optimizer);
         });
}

}  // namespace weft
