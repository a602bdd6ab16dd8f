#include "weft/train/loop/run_reporter.h"

#include "weft/core/host/message.h"
#include "weft/dist/group/consensus.h"
#include "weft/train/config/schedule.h"

namespace weft {
namespace {

absl::StatusOr<RunLog> Opened(const Config& config, const StartRecord& start, Notices& notices) {
  absl::StatusOr<RunLog> log = RunLog::Open(config, start.resumed_step, notices);
  if (!log.ok()) return log;
  if (absl::Status s = log->Write(start); !s.ok()) return s;
  return log;
}

}  // namespace

// A fault of rank 0's log ends the run on all ranks. An error of the disk becomes kAborted.
absl::StatusOr<RunReporter> RunReporter::Open(const Config& config, const StartRecord& start, Mfu mfu,
                                              ProcessGroup& world, Notices& notices) {
  RunReporter reporter(config, mfu, world);
  absl::StatusOr<RunLog> log = world.rank() == 0 ? Opened(config, start, notices) : RunLog();
  absl::Status opened = FirstFault(world, log.status());
  if (absl::IsUnavailable(opened)) return absl::AbortedError("weft: " + std::string(opened.message()));
  if (!opened.ok()) return opened;
  reporter.log_ = *std::move(log);
  return reporter;
}

void RunReporter::Write(const LogRecord& record) {
  if (absl::Status status = log_.Write(record); !status.ok()) NoteLost(status);
}

void RunReporter::NoteLost(const absl::Status& status) {
  std::string fault(status.message());
  PrintStderr("weft: {}; the run continues without it\n", fault);
  std::lock_guard lock(lost_->mutex);
  lost_->status.Update(
      absl::AbortedError("weft: the run has reached its end, but not all of its log is there: " + fault));
}

void RunReporter::WriteStep(StepRecord record) {
  last_loss_ = record.loss;
  record.lr = LearningRate(*config_, record.step);
  record.tokens_per_s = double(config_->train.global_batch * config_->model.context) / record.ms * 1e3;
  record.mfu = mfu_.At(record.tokens_per_s);
  Write(record);
}

void RunReporter::WriteEval(const EvalRecord& record) {
  last_val_loss_ = record.val_loss;
  Write(record);
}

void RunReporter::WriteEnd(int64_t step, double seconds) {
  Write(EndRecord{.step = step, .seconds = seconds, .loss = last_loss_, .val_loss = last_val_loss_});
}

absl::Status RunReporter::Close() { return FirstFault(*world_, lost_->status); }

}  // namespace weft
