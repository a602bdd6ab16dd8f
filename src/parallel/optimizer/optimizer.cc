#include "weft/parallel/optimizer/optimizer.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/host/suggest.h"

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

namespace {

// Returns the rule of this name. Throws Error, which begins with `at`, if there is none.
const OptimizerRule& Known(std::string_view name, const std::string& at) {
  if (const OptimizerRule* rule = FindOptimizer(name)) return *rule;
  std::vector<std::string> names;
  for (const OptimizerRule* rule : OptimizerRules()) names.emplace_back(rule->name);
  Fail(fmt::format("{}: {}", at, ExpectedOneOf(names, name)));
}

void CheckNumber(const char* name, double value, const Bounds& bounds, const std::string& at) {
  WEFT_CHECK(Within(bounds, value), fmt::format("{}: expected {}{}, got {}", at, name, BoundsText(bounds), value));
}

void CheckOptions(const OptimizerOptions& o, const std::string& at) {
  CheckNumber("beta1", o.beta1, kBetaBounds, at);
  CheckNumber("beta2", o.beta2, kBetaBounds, at);
  CheckNumber("eps", o.eps, kEpsBounds, at);
  CheckNumber("momentum", o.momentum, kMomentumBounds, at);
  CheckNumber("weight_decay", o.weight_decay, kDecayBounds, at);
}

}  // namespace

void CheckNumbers(const Optimizer& optimizer, const std::string& at) {
  CheckNumber("lr", optimizer.lr, kLrBounds, at);
  CheckOptions(optimizer.options, at);
  for (const ParameterGroup& group : optimizer.groups) {
    std::string where = fmt::format("{}: the group of {:?}", at, group.match);
    CheckNumber("lr_scale", group.lr_scale, kDecayBounds, where);
    WEFT_CHECK(group.rule || group.options == OptimizerOptions(),
               fmt::format("{}: its options have no effect without a rule; give .rule = &OptimizerNamed(...)", where));
    if (group.rule) CheckOptions(group.options, where);
    if (group.weight_decay) CheckNumber("weight_decay", *group.weight_decay, kDecayBounds, where);
  }
}

const OptimizerRule& OptimizerNamed(std::string_view name, Loc loc) {
  return Known(name, "OptimizerNamed at " + ToString(loc));
}

Optimizer MakeOptimizer(std::string_view name, double lr, Loc loc) {
  std::string at = "MakeOptimizer at " + ToString(loc);
  const OptimizerRule& rule = Known(name, at);
  Optimizer optimizer{.rule = &rule, .options = rule.defaults, .lr = lr};
  CheckNumbers(optimizer, at);
  return optimizer;
}

Optimizer AdamW(double lr, const OptimizerOptions& options, Loc loc) {
  Optimizer optimizer{.rule = FindOptimizer("adamw"), .options = options, .lr = lr};
  CheckNumbers(optimizer, fmt::format("AdamW at {}", ToString(loc)));
  return optimizer;
}

}  // namespace weft
