// StepRunner: runs a TrainingStep over a State by one of the three executors. The programs of the step and of the
// evaluation are Functions. The runner calls them in order and copies their scalars to the host.
#pragma once
#include <functional>
#include <memory>
#include <optional>

#include "weft/core/compile/run_profile.h"
#include "weft/parallel/program/function.h"
#include "weft/parallel/step/training_step.h"

namespace weft {

struct StepMetrics {
  double loss = 0, grad_norm = 0, count = 0;
  // If the loss is scaled: the scale of this step, and the number of updates skipped so far, including this step's.
  std::optional<double> loss_scale;
  int64_t skipped = 0;
};

class StepRunner {
 public:
  virtual ~StepRunner() = default;
  // Issues all micro-steps of a step. fill(j) must write micro-batch j to the slots (tokens, targets, first row). The
  // caller must set the scalar slots (learning rate, step, updates). At most kInFlight steps may be issued and not yet
  // waited for.
  static constexpr int kInFlight = 2;
  virtual void Issue(const std::function<void(int)>& fill) = 0;
  // Waits for the oldest step in flight and returns its metrics.
  virtual StepMetrics Wait() = 0;
  StepMetrics Step(const std::function<void(int)>& fill) {
    Issue(fill);
    return Wait();
  }
  // Returns {sum, count}: the summed loss over the micro-batch in the slots, and its number of targets. All ranks get
  // the same result.
  virtual std::pair<double, double> Eval() = 0;
  virtual size_t arena_bytes() const { return 0; }

  // Times the programs of the steps that are issued from now on, at most `steps` steps, until TakeProfile. Does nothing
  // unless the executor is kCompiled, because others replay no plans.
  virtual void StartProfile(int64_t /*steps*/) {}
  // Returns the profile since StartProfile, or null if none was started. It refers to the programs of this runner. All
  // steps must have been waited for.
  virtual std::unique_ptr<RunProfile> TakeProfile() { return nullptr; }
};

// State and step must outlive the runner. `plans` are those of kCompiled, if they were made already.
std::unique_ptr<StepRunner> MakeRunner(ExecutorKind kind, State& state, TrainingStep& step, const Runtime& runtime,
                                       std::optional<StepPlans> plans = {});

}  // namespace weft
