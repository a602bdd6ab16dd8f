// Runners: three ways to run the same training step. compiled replays a plan over a static arena, interpret runs the
// local program node by node (trapping NaNs), eager runs each op as the model's code reaches it.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "weft/core/compile/executable.h"
#include "weft/core/compile/run_profile.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

enum class ExecutorKind : uint8_t { kCompiled, kInterpret, kEager };

struct StepMetrics {
  double loss = 0, grad_norm = 0, count = 0;
  // Where the loss is scaled: the scale of this step, and the updates left out so far, this one with them.
  std::optional<double> loss_scale;
  int64_t skipped = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Issues all micro-steps; fill(j) puts micro-batch j into the slots (tokens, targets, first row). The scalar slots
  // (learning rate, step, updates) are set by the caller. At most kInFlight steps may be issued and not waited for.
  static constexpr int kInFlight = 2;
  virtual void Issue(const std::function<void(int)>& fill) = 0;
  // The metrics of the oldest such step, when it is done.
  virtual StepMetrics Wait() = 0;
  StepMetrics Step(const std::function<void(int)>& fill) {
    Issue(fill);
    return Wait();
  }
  // Sums the loss over the micro-batch in the slots: {sum, count}, the same on all ranks.
  virtual std::pair<double, double> Eval() = 0;
  virtual size_t arena_bytes() const { return 0; }

  // Times the programs of the steps issued from now on, at most `steps` of them, until TakeProfile. Only kCompiled runs
  // programs: the others do nothing.
  virtual void StartProfile(int64_t /*steps*/) {}
  // The profile since then, whose programs are this runner's; null where none was started. All steps are waited for.
  virtual std::unique_ptr<RunProfile> TakeProfile() { return nullptr; }
};

// The state and the step outlive the runner. `plans`: of kCompiled, where they are made already.
std::unique_ptr<StepRunner> MakeRunner(ExecutorKind kind, State& state, TrainingStep& step, const Runtime& runtime,
                                       std::optional<StepPlans> plans = {});

}  // namespace weft
