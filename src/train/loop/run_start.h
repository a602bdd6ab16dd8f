// RunStart: the start of a run, which is step 0 with new parameters or a checkpoint.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/core/host/path_lock.h"
#include "weft/dist/group/process_group.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/checkpoint/resume.h"
#include "weft/train/data/data.h"

namespace weft {

class RunStart {
 public:
  // Finds the start that checkpoint.resume asks for. If the run saves checkpoints, or if checkpoint.resume is auto,
  // creates their folder and locks it for this run. All ranks must call it; all get the same result. Returns
  // kInvalidArgument, with the position of the key, if the checkpoint or the folder is unusable. Rank 0 prints which
  // checkpoints were skipped.
  static absl::StatusOr<RunStart> Find(const Config& config, const Dataset& data, ProcessGroup& world,
                                       Notices& notices);

  const DataPosition& position() const { return position_; }
  int64_t step() const { return position_.step; }
  const std::string& folder() const { return folder_; }  // of the checkpoint; "": there is none
  bool eval_due() const { return eval_due_; }            // the evaluation after that step is still to be made
  bool is_needed(const Config& config) const { return step() < config.train.steps || eval_due_; }

  // Sets the parameters or, from a checkpoint, all saved entries. Then releases the checkpoint's files. All ranks must
  // call it, once. Throws Error if the weights of model.init cannot be read or differ between ranks.
  absl::Status SetState(const Config& config, State& state, TrainingStep& step, const Runtime& runtime,
                        ProcessGroup& world, Notices& notices);
  // Returns a summary of the weights from model.init, for the user. Returns "" if there were none.
  const std::string& weights() const { return weights_; }

 private:
  absl::Status Take(Resumed resumed, const Config& config, const Dataset& data, ProcessGroup& world);
  std::string TakePosition(const Dataset& data);
  absl::Status MakeFolder(const Config& config, ProcessGroup& world);

  DataPosition position_;
  std::optional<Checkpoint> checkpoint_;  // keeps its files open, because they may be removed meanwhile
  std::string folder_, weights_;
  bool eval_due_ = false;
  std::unique_ptr<PathLock> in_use_;  // on rank 0
};

}  // namespace weft
