// RunStart: where a run begins, at step 0 with new parameters or at a checkpoint.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/dist/group/process_group.h"
#include "weft/parallel/step/training_step.h"
#include "weft/train/checkpoint/folder_lock.h"
#include "weft/train/checkpoint/resume.h"
#include "weft/train/data/data.h"

namespace weft {

class RunStart {
 public:
  // What checkpoint.resume says. Makes the folder of new checkpoints and takes it for this run, where it saves any.
  // Called by all ranks alike, with one answer on all: kInvalidArgument, with the place of the key, where the
  // checkpoint or the folder will not do. Rank 0 prints what it passed over.
  static absl::StatusOr<RunStart> Find(const Config& config, const Dataset& data, ProcessGroup& world,
                                       Notices& notices);

  const DataPosition& position() const { return position_; }
  int64_t step() const { return position_.step; }
  const std::string& folder() const { return folder_; }  // of the checkpoint; "": none
  bool eval_due() const { return eval_due_; }            // an evaluation of that step was not made
  bool is_needed(const Config& config) const { return step() < config.train.steps || eval_due_; }

  // Sets the parameters, and from a checkpoint all that is saved; lets go of its files. Once, by all ranks alike.
  // Throws Error where weights of model.init cannot be read.
  absl::Status SetState(const Config& config, State& state, TrainingStep& step, const Runtime& runtime,
                        ProcessGroup& world, Notices& notices);
  const std::string& weights() const { return weights_; }  // what model.init gave, for people; "": random values

 private:
  absl::Status Take(Resumed resumed, const Config& config, const Dataset& data, ProcessGroup& world);
  std::string TakePosition(const Dataset& data);
  absl::Status MakeFolder(const Config& config, ProcessGroup& world);

  DataPosition position_;
  std::optional<Checkpoint> checkpoint_;  // holds its files, which may be removed meanwhile
  std::string folder_, weights_;
  bool eval_due_ = false;
  std::unique_ptr<FolderLock> in_use_;  // of rank 0
};

}  // namespace weft
