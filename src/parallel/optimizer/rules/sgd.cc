// Stochastic gradient descent as in PyTorch. Reads momentum, nesterov and weight_decay. Weight decay is added to the
// gradient.
#include "weft/core/ir/node.h"
#include "weft/core/ops/optimizer_ops.h"
#include "weft/parallel/optimizer/optimizer.h"

namespace weft::optimizers {
namespace {

constexpr const char *kSlots[] = {"momentum"}, *kKeys[] = {"momentum", "nesterov"};

SlotNames Slots(const OptimizerOptions& options) { return options.momentum > 0 ? SlotNames(kSlots) : SlotNames(); }

std::vector<Var> Update(const ParameterUpdate& u) {
  const OptimizerOptions& o = u.options;
  if (u.slots.empty()) return {Sgd(u.value, u.gradient, u.lr, u.scale, u.updates, o.weight_decay)};
  auto [p, momentum] = Sgd(u.value, u.slots[0], u.gradient, u.lr, u.scale, u.updates,
                           {.momentum = o.momentum, .nesterov = o.nesterov, .weight_decay = o.weight_decay});
  return {p, momentum};
}

}  // namespace

extern const OptimizerRule sgd;
const OptimizerRule sgd{.name = "sgd",
                        .summary = "gradient descent with momentum",
                        .defaults = {},
                        .keys = kKeys,
                        .slots = Slots,
                        .update = Update};

}  // namespace weft::optimizers
