// AdamW (Loshchilov, Hutter 2019). Reads betas, eps and weight_decay.
#include "weft/core/ir/node.h"
#include "weft/core/ops/optimizer_ops.h"
#include "weft/parallel/optimizer/optimizer.h"

namespace weft::optimizers {
namespace {

constexpr const char *kSlots[] = {"m", "v"}, *kKeys[] = {"betas", "eps"};

SlotNames Slots(const OptimizerOptions&) { return kSlots; }

std::vector<Var> Update(const ParameterUpdate& u) {
  const OptimizerOptions& o = u.options;
  auto [p, m, v] = AdamW(u.value, u.slots[0], u.slots[1], u.gradient, u.lr, u.scale, u.updates,
                         {.beta1 = o.beta1, .beta2 = o.beta2, .eps = o.eps, .weight_decay = o.weight_decay});
  return {p, m, v};
}

}  // namespace

extern const OptimizerRule adamw;
const OptimizerRule adamw{.name = "adamw",
                          .summary = "Adam with decoupled weight decay",
                          .defaults = {.weight_decay = 0.1},
                          .keys = kKeys,
                          .slots = Slots,
                          .update = Update};

}  // namespace weft::optimizers
