// Dynamic loss scaling for training in f16 (Micikevicius et al. 2018; PyTorch's GradScaler). The loss is multiplied by
// a scale before its gradients are computed, so that small gradients do not round to zero. A step in which a gradient
// is not finite updates nothing and lowers the scale. After growth_interval updates in a row the scale grows. Nodes of
// the step do all of this on entries of the State, so the host reads nothing and all ranks make the same decision.
#pragma once
#include <cstdint>
#include <vector>

#include "weft/core/ir/graph.h"

namespace weft {

// The scale applies to the mean loss, as in other frameworks, although the gradients are those of the sum.
struct LossScaleOptions {
  double initial = 65536, growth_factor = 2, backoff_factor = 0.5;
  int64_t growth_interval = 2000;
  double min = 1;  // the scale is never lowered below it
  // The range of the scale, far from the limits of f32. Without kMost, gradients that are all zero would let the scale
  // grow to infinity.
  static constexpr double kLeast = 1e-18, kMost = 1e18;
};

namespace entry {
inline constexpr const char *kLossScale = "loss_scale.scale", *kGoodSteps = "loss_scale.good_steps",
                            *kSkipped = "loss_scale.skipped";
}

// Returns the factor by which the sum of the losses of at most `targets` targets is multiplied: the scale divided by
// the largest power of two that is not above `targets`.
Var LossSeed(int64_t targets);

// Decides, after the gradients of a step, whether it updates the parameters. The argument `updates` is the number of
// the step. The result's `updates` is the number of the update, or 0 for no update if the norm of all gradients is not
// finite. Outputs are "loss_scale", the scale of this step, and "skipped", the number of updates skipped so far.
struct ScaledUpdate {
  Var updates;
  std::vector<NamedValue> outputs, writes;
};
ScaledUpdate DecideUpdate(Var norm, Var updates, const LossScaleOptions& options);

}  // namespace weft
