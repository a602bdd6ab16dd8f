// CheckpointPolicy: decides which steps of a run are saved, and how a run that stops can be resumed. Without
// checkpoint.dir it saves nothing.
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
  // All arguments must outlive the policy. `activity` receives descriptions of this rank's saves; it may be null.
  CheckpointPolicy(const Config& config, const Dataset& data, const RunStart& start, State& state, ProcessGroup& world,
                   RunReporter& reporter, Notices& notices, RankActivity* activity);

  bool IsDue(int64_t step) const;
  struct Follows {
    bool eval = false;     // an evaluation of the step
    bool nothing = false;  // only Wait
  };
  // Saves the state after `step`, concurrently with the work that follows. Requires checkpoint.dir. All ranks must call
  // it; all get the same result. Returns kAborted if this checkpoint and the one before it cannot be saved. Wait
  // returns kAborted if the last one cannot.
  absl::Status Save(int64_t step, Follows follows);
  // Waits until the save in progress has copied the state, which must not change before. Returns the time waited.
  CheckpointSaver::Clock::duration WaitForCopy();
  // Records that the evaluation after `step` is done.
  void NoteEvaluated(int64_t step);
  // Waits for the end of the save in progress, after which the group of all ranks may be used. Wait returns its status.
  void Join();
  // Waits for the end of the save in progress and returns its status.
  absl::Status Wait();
  // Call it before a run stops after `step`. Saves the step unless it is saved already, and waits for the save.
  absl::Status SaveAtStop(int64_t step, bool eval_due);
  // Returns advice for the user on how to resume the run after `step`.
  std::string HowToGoOn(int64_t step) const;

 private:
  std::set<int64_t> EarlierSteps() const;

  const Config& config_;
  const Dataset& data_;
  const RunStart& start_;
  DataPosition position_;                   // of the latest save, so that the next position is counted from it
  std::unique_ptr<CheckpointSaver> saver_;  // null: no checkpoint.dir
};

}  // namespace weft
