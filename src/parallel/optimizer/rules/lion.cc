// Lion (Chen et al. 2023). Reads betas and weight_decay. It moves each element by lr, so a third to a tenth of AdamW's
// lr suits it.
#include "weft/core/ir/node.h"
#include "weft/core/ops/optimizer_ops.h"
#include "weft/parallel/optimizer/optimizer.h"

namespace weft::optimizers {
namespace {

constexpr const char *kSlots[] = {"m"}, *kKeys[] = {"betas"};

SlotNames Slots(const OptimizerOptions&) { return kSlots; }

std::vector<Var> Update(const ParameterUpdate& u) {
  const OptimizerOptions& o = u.options;
  auto [p, m] = Lion(u.value, u.slots[0], u.gradient, u.lr, u.scale, u.updates,
                     {.beta1 = o.beta1, .beta2 = o.beta2, .weight_decay = o.weight_decay});
  return {p, m};
}

}  // namespace

extern const OptimizerRule lion;
const OptimizerRule lion{.name = "lion",
                         .summary = "the sign of a mean of gradients, with decoupled weight decay",
                         .defaults = {.beta2 = 0.99, .weight_decay = 0.1},
                         .keys = kKeys,
                         .slots = Slots,
                         .update = Update};

}  // namespace weft::optimizers
