// CheckpointPolicy: which steps of a run are saved, and how a run that stops goes on. Without checkpoint.dir it saves
// nothing.
#pragma once
#include <memory>
#include <set>
#include <string>

#include "weft/train/checkpoint/saver.h"
#include "weft/train/loop/run_reporter.h"
#include "weft/train/loop/run_start.h"

namespace weft {

class CheckpointPolicy {
 public:
  // All outlive the policy. `activity`, unless null, gets what the rank saves.
  CheckpointPolicy(const Config& config, const Dataset& data, const RunStart& start, State& state, ProcessGroup& world,
                   RunReporter& reporter, Notices& notices, RankActivity* activity);

  bool IsDue(int64_t step) const;
  // Saves the state after `step`, beside what follows. `eval_due`: an evaluation of it follows; `last`: nothing else
  // does. On all ranks alike: kAborted where two checkpoints in a row, or the last one, cannot be saved.
  absl::Status Save(int64_t step, bool eval_due, bool last);
  // The evaluation that follows `step` is made.
  void NoteEvaluated(int64_t step);
  // The end of a save in progress.
  absl::Status Wait();
  // Before a run stops after `step`: saves it unless that is done.
  absl::Status SaveAtStop(int64_t step, bool eval_due);
  // What to start a run with that goes on after `step`, for people.
  std::string HowToGoOn(int64_t step) const;

 private:
  std::set<int64_t> EarlierSteps() const;

  const Config& config_;
  const Dataset& data_;
  const RunStart& start_;
  DataPosition position_;                   // of the latest save, so that the next counts from there
  std::unique_ptr<CheckpointSaver> saver_;  // null: no checkpoint.dir
};

}  // namespace weft
