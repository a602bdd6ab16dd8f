// The micro-step: the loss of one micro-batch and its gradients, as sums that micro-steps and ranks can add up.
#pragma once
#include <vector>

#include "weft/parallel/nn/model.h"
#include "weft/parallel/step/entries.h"
#include "weft/parallel/step/step_options.h"

namespace weft {

// Sums over a micro-batch, each under the name of its accumulator: the loss, the number of its targets, and for each
// parameter, in order, the gradient of the sum (times LossSeed where the loss is scaled).
struct MicroSums {
  NamedValue loss, count;
  std::vector<NamedValue> gradients;

  std::vector<NamedValue> All() const;
  // The same names with the values that fn(NamedValue) gives.
  template <class Fn>
  MicroSums Map(const Fn& fn) const {
    MicroSums result{{loss.name, fn(loss)}, {count.name, fn(count)}, {}};
    for (const NamedValue& g : gradients) result.gradients.push_back({g.name, fn(g)});
    return result;
  }
};

// Inside a builder and the model's scope.
MicroSums Micro(Model& model, const StepOptions& options);
MicroSums Plus(const MicroSums& a, const MicroSums& b);

// One micro-batch of evaluation, inside a builder and the model's scope: outputs "sum" and "count".
std::vector<NamedValue> EvalSums(Model& model, const StepOptions& options);

// The entries that are filled before each micro-step.
std::vector<EntryInfo> SlotEntries(const StepOptions& options);
// How many images of them there are in staging memory, where the device is not the CPU: one step may run while the next
// is filled.
constexpr int SlotImages(int micro_steps) { return 2 * micro_steps; }

}  // namespace weft
