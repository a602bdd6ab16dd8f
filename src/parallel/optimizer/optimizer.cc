#include "weft/parallel/optimizer/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {
namespace optimizers {
#define WEFT_OPTIMIZER(name) extern const OptimizerRule name;
#include "optimizers.inc"
#undef WEFT_OPTIMIZER
}  // namespace optimizers

bool OptimizerRule::Reads(std::string_view key) const {
  return std::any_of(keys.begin(), keys.end(), [&](const char* k) { return k == key; });
}

std::string OptimizerRule::EntryOf(const char* slot, const Parameter& parameter) const {
  return fmt::format("{}.{}.{}", name, slot, parameter.path());
}

std::span<const OptimizerRule* const> OptimizerRules() {
  static const OptimizerRule* const rules[] = {
#define WEFT_OPTIMIZER(name) &optimizers::name,
#include "optimizers.inc"
#undef WEFT_OPTIMIZER
  };
  return rules;
}

const OptimizerRule* FindOptimizer(std::string_view name) {
  for (const OptimizerRule* rule : OptimizerRules())
    if (name == rule->name) return rule;
  return nullptr;
}

const ParameterGroup* Optimizer::GroupOf(const std::string& path) const {
  auto last = std::find_if(groups.rbegin(), groups.rend(),
                           [&](const ParameterGroup& group) { return MatchesGlob(group.match, path); });
  return last == groups.rend() ? nullptr : &*last;
}

ParameterRule RuleOf(const Optimizer& optimizer, const Parameter& parameter) {
  ParameterRule mine{optimizer.rule, optimizer.options};
  const ParameterGroup* group = optimizer.GroupOf(parameter.path());
  if (group && group->rule) mine = {group->rule, group->options};
  if (mine.rule->takes && !mine.rule->takes(parameter)) mine.rule = FindOptimizer("adamw");
  if (!parameter.decay()) mine.options.weight_decay = 0;
  if (group && group->weight_decay) mine.options.weight_decay = *group->weight_decay;
  if (group) mine.lr_scale = group->lr_scale;
  return mine;
}

SlotName ParseSlot(std::string_view entry) {
  size_t first = entry.find('.'), second = entry.find('.', first + 1);
  if (first == entry.npos || second == entry.npos) return {};
  return {FindOptimizer(entry.substr(0, first)), std::string(entry.substr(first + 1, second - first - 1)),
          std::string(entry.substr(second + 1))};
}

Optimizer MakeOptimizer(std::string_view name, double lr) {
  const OptimizerRule* rule = FindOptimizer(name);
  std::string known;
  for (const OptimizerRule* r : OptimizerRules()) known += (known.empty() ? "" : ", ") + std::string(r->name);
  WEFT_CHECK(rule, fmt::format("optimizer: expected one of {}, got {:?}", known, name));
  return {.rule = rule, .options = rule->defaults, .lr = lr};
}

Optimizer AdamW(double lr, const OptimizerOptions& options) {
  return {.rule = FindOptimizer("adamw"), .options = options, .lr = lr};
}

}  // namespace weft
