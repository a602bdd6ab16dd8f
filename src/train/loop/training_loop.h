// TrainingLoop: runs the steps of a run and, between them, evaluations, checkpoints, samples and profiles.
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
  // The objects that the loop uses. All of them must outlive it.
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
    StopGate* stop;          // null: nothing stops the loop
    StartTimes* times;       // null: the log does not get them
    StepSampler* sampler;    // null: no samples
    StepProfiler* profiler;  // null: no profile
  };
  explicit TrainingLoop(const Parts& parts) : p_(parts), eval_due_(parts.start.eval_due()) {}

  // Returns the status of Trainer::Run.
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
  void BeginProfile(int64_t step);
  void EndProfile(int64_t step);
  absl::Status Sample(int64_t step);
  absl::Status Eval(int64_t step);

  Parts p_;
  bool stopped_ = false;
  bool eval_due_;  // the evaluation after the latest step is still to be made
  // The time at which the step being timed begins: the end of the step before it, or of a pause between them.
  Clock::time_point last_;
};

}  // namespace weft
