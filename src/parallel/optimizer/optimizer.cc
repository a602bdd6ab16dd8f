#include "weft/parallel/optimizer/optimizer.h"

#include <fmt/format.h>

namespace weft {
namespace optimizers {
#define WEFT_OPTIMIZER(name) extern const OptimizerRule name;
#include "optimizers.inc"
#undef WEFT_OPTIMIZER
}  // namespace optimizers

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

}  // namespace weft
