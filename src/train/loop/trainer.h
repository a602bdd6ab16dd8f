// Trainer: the loop. It builds the step, feeds it, evaluates, and reports (rank 0).
#pragma once
#include <chrono>
#include <set>

#include "absl/status/status.h"
#include "weft/dist/group/mesh.h"
#include "weft/dist/group/rank_activity.h"
#include "weft/dist/signals/stop_gate.h"
#include "weft/parallel/step/runner.h"
#include "weft/train/checkpoint/folder_lock.h"
#include "weft/train/checkpoint/resume.h"
#include "weft/train/checkpoint/saver.h"
#include "weft/train/data/data.h"
#include "weft/train/data/slots.h"
#include "weft/train/log/mfu.h"
#include "weft/train/log/run_log.h"

namespace weft {

class Trainer {
 public:
  // config is resolved for this mesh and this data, and both are the same on all ranks (CheckSameRun); all outlive the
  // trainer. All ranks make it together: it checks that they will issue the same collectives in the same order. Throws
  // Error. Steps and batches of an evaluation ask the gate, where there is one; `activity`, unless null, gets what the
  // rank saves. Both outlive the trainer.
  Trainer(const Config& config, const Dataset& data, const Context& context, DeviceMesh& mesh,
          DeviceKind device = DeviceKind::kCpu, StopGate* stop = nullptr, RankActivity* activity = nullptr);
  ~Trainer();

  // Trains all steps, or those that a checkpoint has before it; evaluates, logs, saves. Where the gate stops it, it
  // saves, says how to go on, and is well. On all ranks alike:
  // kInvalidArgument, the checkpoint to go on from, or the folder of new ones, will not do, and nothing was started;
  // kResourceExhausted, there is too little memory, and nothing was allocated; kAborted, a loss or norm is not finite,
  // and what follows would be worthless, or two checkpoints in a row, or the last one, cannot be saved, or the
  // log cannot be opened or, said at the end, was not written to its end.
  absl::Status Run();

 private:
  absl::Status Allocate();
  absl::Status SetParameters();
  absl::Status Resume();
  absl::Status CheckTokenizer(const Manifest& saved) const;
  absl::Status MakeFolder();
  std::set<int64_t> EarlierSteps() const;
  bool SaveDue(int64_t step) const;
  absl::Status Save(int64_t step);
  bool Goes() { return !stop_ || stop_->Enter(); }
  absl::Status MakeUpEval();
  absl::Status Train(int64_t* step);
  absl::Status SaveAndEval(int64_t step);
  absl::Status Stop(int64_t step);
  std::string HowToGoOn(int64_t step) const;
  absl::Status CheckLog();
  void IssueStep(int64_t step);
  absl::Status FinishStep(int64_t step);
  bool EvalDue(int64_t step) const;
  absl::Status LogStart();
  absl::Status OpenLog();
  StartRecord Started() const;
  void Log(const LogRecord& record);
  void LogStep(StepRecord record);
  absl::Status LogEval(int64_t step);
  bool Reports() const { return context_.rank() == 0; }

  const Config& config_;
  const Dataset& data_;
  const Context& context_;
  DeviceMesh& mesh_;
  StopGate* stop_;
  RankActivity* activity_;
  bool stopped_ = false;
  bool eval_due_ = false;  // of the latest step, and not made yet
  TrainingStep step_;
  Runtime runtime_;
  State state_;
  std::optional<Slots> slots_;  // these two once memory is allocated
  std::unique_ptr<StepRunner> runner_;
  std::unique_ptr<CheckpointSaver> saver_;  // where there is a folder for it
  FolderLock in_use_;                       // of rank 0
  Resumed resumed_;           // until its values are loaded: it holds its files, which may be removed meanwhile
  std::string resumed_from_;  // its folder; "": none
  DataPosition start_;        // step 0, or that of the checkpoint that the run goes on from
  RunLog log_;                // of rank 0
  absl::Status lost_;         // what of it could not be written
  Mfu mfu_;
  std::chrono::steady_clock::time_point last_;  // when the latest step was finished, or its first micro-step begun
  std::optional<double> last_loss_, last_val_loss_;
  std::string init_summary_;  // "": random values
};

}  // namespace weft
