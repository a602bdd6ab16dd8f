// RunReporter: writes the records of a run, for users and programs. Only rank 0 writes. A run is worth more than its
// log, so the run continues if a record cannot be written, and Close then returns an error.
#pragma once
#include <optional>

#include "weft/dist/group/process_group.h"
#include "weft/train/config/config.h"
#include "weft/train/log/mfu.h"
#include "weft/train/log/run_log.h"

namespace weft {

class RunReporter {
 public:
  // Opens the log on rank 0 and writes the start record. All ranks must call it; all get the same result. Returns
  // kInvalidArgument if a path in config.log is unusable, and kAborted for an error of the disk.
  static absl::StatusOr<RunReporter> Open(const Config& config, const StartRecord& start, Mfu mfu, ProcessGroup& world,
                                          Notices& notices);

  bool IsOpen() const { return world_->rank() == 0; }  // whether this rank writes
  // May be called from any thread.
  void Write(const LogRecord& record);
  // Adds the learning rate, and the rates that follow from the step's time, before it writes.
  void WriteStep(StepRecord record);
  void WriteEval(const EvalRecord& record);
  void WriteEnd(int64_t step, double seconds);
  // Reports that something could not be written. The run continues. May be called from any thread.
  void NoteLost(const absl::Status& status);
  // Returns kAborted on all ranks if the log is incomplete. All ranks must call it.
  absl::Status Close();

 private:
  RunReporter(const Config& config, Mfu mfu, ProcessGroup& world) : config_(&config), world_(&world), mfu_(mfu) {}

  const Config* config_;
  ProcessGroup* world_;
  Mfu mfu_;
  RunLog log_;   // open on rank 0; elsewhere it drops all records
  struct Lost {  // the first error of a write
    std::mutex mutex;
    absl::Status status;
  };
  std::unique_ptr<Lost> lost_ = std::make_unique<Lost>();
  std::optional<double> last_loss_, last_val_loss_;
};

}  // namespace weft
