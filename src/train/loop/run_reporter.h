// RunReporter: what a run tells people and programs, a record at a time. Rank 0 writes; a run is worth more than its
// log, so where a record cannot be written the run goes on, and Close says so.
#pragma once
#include <optional>

#include "weft/dist/group/process_group.h"
#include "weft/train/config/config.h"
#include "weft/train/log/mfu.h"
#include "weft/train/log/run_log.h"

namespace weft {

class RunReporter {
 public:
  // Opens the log on rank 0 and writes how the run starts. Called by all ranks alike, with one answer on all:
  // kInvalidArgument where config.log will not do, kAborted where the disk will not.
  static absl::StatusOr<RunReporter> Open(const Config& config, const StartRecord& start, Mfu mfu, ProcessGroup& world,
                                          Notices& notices);

  bool IsOpen() const { return world_->rank() == 0; }  // on this rank
  // From any thread.
  void Write(const LogRecord& record);
  // Adds what follows from the time of a step: rates and the learning rate.
  void WriteStep(StepRecord record);
  void WriteEval(const EvalRecord& record);
  void WriteEnd(int64_t step, double seconds);
  // What could not be written: says so, and the run goes on. From any thread.
  void NoteLost(const absl::Status& status);
  // On all ranks alike: kAborted where the log lacks something.
  absl::Status Close();

 private:
  RunReporter(const Config& config, Mfu mfu, ProcessGroup& world) : config_(&config), world_(&world), mfu_(mfu) {}

  const Config* config_;
  ProcessGroup* world_;
  Mfu mfu_;
  RunLog log_;   // of rank 0; another's swallows all
  struct Lost {  // what of it could not be written
    std::mutex mutex;
    absl::Status status;
  };
  std::unique_ptr<Lost> lost_ = std::make_unique<Lost>();
  std::optional<double> last_loss_, last_val_loss_;
};

}  // namespace weft
