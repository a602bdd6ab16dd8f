// Trainer: executes a run, from its config and data to its end. It builds the step, finds the start of the run, checks
// memory, and runs a TrainingLoop.
#pragma once
#include "absl/status/status.h"
#include "weft/core/host/notice.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/rank_activity.h"
#include "weft/dist/signals/stop_gate.h"
#include "weft/parallel/step/runner.h"
#include "weft/train/data/data.h"
#include "weft/train/log/metrics.h"
#include "weft/train/loop/run_start.h"
#include "weft/train/loop/step_sampler.h"

namespace weft {

// The parts of a job that its trainer uses. A pointer may be null. What it points to must outlive the trainer.
struct RunServices {
  StopGate* stop = nullptr;  // asked before each step and each batch of an evaluation; null: nothing stops the run
  RankActivity* activity = nullptr;  // receives descriptions of this rank's saves
  // Reports oddities to the user. The log gets all of them, including earlier ones. Null: the trainer uses its own.
  Notices* notices = nullptr;
  StartTimes* times = nullptr;  // of the phases of the start, which the log gets after the first step
};

class Trainer {
 public:
  // The config must be resolved for this mesh and this data. Config and data must be the same on all ranks
  // (CheckSameRun). All arguments must outlive the trainer. All ranks must construct it together. Throws Error if ranks
  // would issue different collectives.
  Trainer(const Config& config, const Dataset& data, const Context& context, DeviceMesh& mesh,
          DeviceKind device = DeviceKind::kCpu, const RunServices& services = {});
  // Sets the sampler for train.sample_every. Without one there are no samples. Must be called before Run.
  void set_sampler(std::unique_ptr<StepSampler> sampler) { sampler_ = std::move(sampler); }

  // Trains the steps that remain after the checkpoint, if there is one. Evaluates, logs and saves. If the gate stops
  // the run, saves the state, prints how to resume, and returns OK. Returns the same result on all ranks:
  // - kInvalidArgument: the checkpoint to resume from, the folder of new ones, profile.steps or config.log is unusable.
  //   No step was run.
  // - kResourceExhausted: there is too little memory. Nothing was allocated.
  // - kAborted: a loss, a norm or a logit of a sample is not finite, so that further steps would be worthless. Or two
  //   checkpoints in a row, or the last one, cannot be saved. Or the log cannot be opened, or was not written
  //   completely, which is reported at the end.
  // If Run throws, a save may be in progress. The trainer waits for it in its destructor, not in Run.
  absl::Status Run();
  ~Trainer();

 private:
  struct Parts;
  // Returns the plans of the compiled executor; nullopt for other executors. Checks that the run can execute them.
  absl::StatusOr<std::optional<StepPlans>> MakePlans();
  absl::Status CheckMemoryFor(const std::optional<StepPlans>& plans);
  void Note(StartPhase phase) const;
  absl::Status RunFrom(RunStart found);
  StartRecord Started(const RunStart& start, const StepRunner& runner) const;

  const Config& config_;
  const Dataset& data_;
  const Context& context_;
  DeviceMesh& mesh_;
  RunServices services_;
  Notices own_notices_;  // used if the caller passes none
  Notices& notices_;
  TrainingStep step_;
  Runtime runtime_;
  std::unique_ptr<Parts> parts_;          // of the run; null before it starts
  std::unique_ptr<StepSampler> sampler_;  // uses the State in parts_, so it is destroyed before it
};

}  // namespace weft
