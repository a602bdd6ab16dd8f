// Trainer: a run, from its config and data to its end. It builds the step, finds where the run starts, checks memory,
// and lets a TrainingLoop train.
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

class Trainer {
 public:
  // config is resolved for this mesh and this data, and both are the same on all ranks (CheckSameRun); all outlive the
  // trainer. All ranks make it together: it checks that they will issue the same collectives in the same order. Throws
  // Error. Steps and batches of an evaluation ask the gate, where there is one; `activity`, unless null, gets what the
  // rank saves; `notices` of this rank have said what is odd so far, and say the rest: the log has all of it (null: a
  // channel of the trainer's own). All outlive the trainer.
  Trainer(const Config& config, const Dataset& data, const Context& context, DeviceMesh& mesh,
          DeviceKind device = DeviceKind::kCpu, StopGate* stop = nullptr, RankActivity* activity = nullptr,
          Notices* notices = nullptr);
  // What writes the samples of train.sample_every; none without it. Before Run.
  void set_sampler(std::unique_ptr<StepSampler> sampler) { sampler_ = std::move(sampler); }

  // Trains all steps, or those that a checkpoint has before it; evaluates, logs, saves. Where the gate stops it, it
  // saves, says how to go on, and is well. On all ranks alike:
  // kInvalidArgument, the checkpoint to go on from, or the folder of new ones, will not do, and nothing was started;
  // kResourceExhausted, there is too little memory, and nothing was allocated; kAborted, a loss or norm is not finite,
  // and what follows would be worthless, or two checkpoints in a row, or the last one, cannot be saved, or the
  // log cannot be opened or, said at the end, was not written to its end.
  // Where Run throws, a checkpoint may be in progress: the trainer waits for it when it ends, not Run.
  absl::Status Run();
  ~Trainer();

 private:
  struct Parts;
  absl::Status CheckMemoryFor(const std::optional<StepPlans>& plans);
  absl::Status RunFrom(RunStart found);
  StartRecord Started(const RunStart& start, const StepRunner& runner) const;

  const Config& config_;
  const Dataset& data_;
  const Context& context_;
  DeviceMesh& mesh_;
  StopGate* stop_;
  RankActivity* activity_;
  Notices own_notices_;  // where the caller has none
  Notices& notices_;
  TrainingStep step_;
  Runtime runtime_;
  std::unique_ptr<Parts> parts_;          // of the run
  std::unique_ptr<StepSampler> sampler_;  // runs on their state
};

}  // namespace weft
