// TrainingLoop: the steps of a run, and what comes between them: evaluations, checkpoints, the end.
#pragma once
#include <chrono>

#include "weft/dist/signals/stop_gate.h"
#include "weft/parallel/step/runner.h"
#include "weft/train/data/slots.h"
#include "weft/train/loop/checkpoint_policy.h"
#include "weft/train/loop/run_reporter.h"
#include "weft/train/loop/step_sampler.h"
#include "weft/train/profile/step_profiler.h"

namespace weft {

class TrainingLoop {
 public:
  // What it is made of, built before it and in this order; all outlive it.
  struct Parts {
    const Config& config;
    const Dataset& data;
    const TrainingStep& step;
    DeviceRuntime& device;
    const RunStart& start;
    Slots& slots;
    StepRunner& runner;
    RunReporter& reporter;
    CheckpointPolicy& checkpoints;
    StopGate* stop;          // null: nothing stops it
    StepSampler* sampler;    // null: no samples
    StepProfiler* profiler;  // null: no profile
  };
  explicit TrainingLoop(const Parts& parts) : p_(parts), eval_due_(parts.start.eval_due()) {}

  // As Trainer::Run.
  absl::Status Run();

 private:
  using Clock = std::chrono::steady_clock;

  bool Goes() { return !p_.stop || p_.stop->Enter(); }
  absl::Status MakeUpEval();
  absl::Status Train(int64_t* step);
  absl::Status SaveAndEval(int64_t step);
  absl::Status Stop(int64_t step);
  void IssueStep(int64_t step);
  absl::Status FinishStep(int64_t step);
  bool EvalDue(int64_t step) const;
  bool SampleDue(int64_t step) const;
  bool PauseDue(int64_t step) const;
  void EndProfile(int64_t step);
  absl::Status Sample(int64_t step);
  absl::Status Eval(int64_t step);

  Parts p_;
  bool stopped_ = false;
  bool eval_due_;           // of the latest step, and not made yet
  Clock::time_point last_;  // when the latest step was finished, or its first micro-step begun
};

}  // namespace weft
