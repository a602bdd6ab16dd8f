// Dynamic loss scaling, which training in f16 needs: gradients are those of the loss times a scale, so that small ones
// do not round to zero. A step in which any gradient is not finite updates nothing and lowers the scale; after
// growth_interval updates in a row the scale grows (Micikevicius et al. 2018; PyTorch's GradScaler). All of it is nodes
// of the step over entries of the State: the host reads nothing, and all ranks decide alike.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/core/ir/graph.h"

namespace weft {

// The scale is that of the mean loss, as elsewhere, although gradients are those of the sum.
struct LossScaleOptions {
  double initial = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min = 1;  // it backs off no further
  // Far from where f32 ends: gradients that are all zero would let it grow to infinity.
  static constexpr double kLeast = 1e-18, kMost = 1e18;
};

namespace entry {
inline constexpr const char *kLossScale = "loss_scale.scale", *kGoodSteps = "loss_scale.good_steps",
                            *kSkipped = "loss_scale.skipped";
}

// What the sum of the losses of up to `targets` targets is multiplied by: the scale over a power of two near `targets`.
Var LossSeed(int64_t targets);

// After the gradients: `updates` numbers the step, the result numbers its update, which is 0 (none) where the norm of
// all gradients is not finite. Outputs "loss_scale", this step's, and "skipped", the updates left out so far.
struct ScaledUpdate {
  Var updates;
  std::vector<NamedValue> outputs, writes;
};
ScaledUpdate DecideUpdate(Var norm, Var updates, const LossScaleOptions& options);

}  // namespace weft
