// The micro-step: computes the loss of one micro-batch and its gradients, as sums that can be added over micro-steps
// and ranks.
#pragma once
#include <vector>

#include "weft/parallel/nn/model.h"
#include "weft/parallel/step/entries.h"
#include "weft/parallel/step/step_options.h"

namespace weft {

// Sums over a micro-batch: the loss, the number of its targets and, for each parameter in order, the gradient of the
// summed loss. If the loss is scaled, the gradients are multiplied by LossSeed. Each sum has the name of its
// accumulator.
struct MicroSums {
  NamedValue loss, count;
  std::vector<NamedValue> gradients;

  std::vector<NamedValue> All() const;
  // Returns sums with the same names and with the values fn(NamedValue).
  template <class Fn>
  MicroSums Map(const Fn& fn) const {
    MicroSums result{{loss.name, fn(loss)}, {count.name, fn(count)}, {}};
    for (const NamedValue& g : gradients) result.gradients.push_back({g.name, fn(g)});
    return result;
  }
};

// Returns the sums of a loss and its gradients, ready for an accumulator or an update. `gradients` are those of
// loss.sum, one per parameter in order. Throws Error if their number is wrong. Requires a current builder and the
// model's scope.
MicroSums SumsOf(const Loss& loss, std::span<const Var> gradients, const Module& model, const StepOptions& options);

// Returns the sums of the micro-batch in the slots. Requires a current builder and the model's scope.
MicroSums Micro(Model& model, const StepOptions& options);
MicroSums Plus(const MicroSums& a, const MicroSums& b);

// Evaluates the micro-batch in the slots. Returns the outputs "sum" and "count". Requires a current builder and the
// model's scope.
std::vector<NamedValue> EvalSums(Model& model, const StepOptions& options);

// Returns the entries that are filled before each micro-step.
std::vector<EntryInfo> SlotEntries(const StepOptions& options);
// Returns the number of images of the slots in staging memory, for devices other than the CPU. One step may run while
// the next is filled.
constexpr int SlotImages(int micro_steps) { return 2 * micro_steps; }

}  // namespace weft
