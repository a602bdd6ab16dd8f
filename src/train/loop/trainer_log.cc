// What the trainer reports: a record of its start, of each step, and of its end. Rank 0's log alone is open.

#include <ctime>

#include "weft/core/host/message.h"
#include "weft/dist/group/consensus.h"
#include "weft/parallel/step/kernel_choices.h"
#include "weft/train/config/schedule.h"
#include "weft/train/loop/trainer.h"
#include "weft/train/preflight/agreement.h"

namespace weft {

StartRecord Trainer::Started() const {
  StartRecord start{.version = WEFT_VERSION,
                    .config = ToYaml(config_),
                    .ranks = context_.world_size(),
                    .dp = config_.mesh.dp,
                    .tp = config_.mesh.tp};
  for (const Parameter* p : step_.model().Parameters()) start.parameters += NumElements(p->shape());
  start.steps = config_.train.steps;
  start.tokens_per_step = config_.train.global_batch * config_.model.context;
  start.train_tokens = data_.train().size();
  start.val_tokens = data_.val().size();
  start.kernels = KernelChoices(step_.step().graph, runtime_);
  start.device = Name(runtime_.device);
  start.unix_time = int64_t(std::time(nullptr));
  start.init = init_summary_;
  start.global_nodes = step_.global_nodes();
  start.local_nodes = int64_t(step_.step().graph.nodes.size());
  start.arena_bytes = int64_t(runner_->arena_bytes());
  if (resumed_from_.empty()) return start;
  start.resumed_step = start_.step;
  start.resumed_from = resumed_from_;
  return start;
}

// Rank 0 alone opens the log: what is wrong with it is everybody's fault. That of a disk is said by all as one.
absl::Status Trainer::LogStart() {
  absl::Status opened = FirstFault(mesh_.World(), OpenLog());
  return absl::IsUnavailable(opened) ? absl::AbortedError("weft: " + std::string(opened.message())) : opened;
}

absl::Status Trainer::OpenLog() {
  if (!Reports()) return absl::OkStatus();
  StartRecord start = Started();
  absl::StatusOr<RunLog> log = RunLog::Open(config_, start.resumed_step);
  if (!log.ok()) return log.status();
  log_ = *std::move(log);
  return log_.Write(start);
}

// A run is worth more than its log: where that cannot be written it goes on without, and fails at its end.
void Trainer::Log(const LogRecord& record) {
  absl::Status status = log_.Write(record);
  if (status.ok()) return;
  std::string fault(status.message());
  PrintStderr("weft: {}; the run goes on without it\n", fault);
  lost_.Update(absl::AbortedError("weft: the run has reached its end, but not all of its log is there: " + fault));
}

void Trainer::LogStep(StepRecord record) {
  last_loss_ = record.loss;
  if (!Reports()) return;
  record.lr = LearningRate(config_, record.step);
  record.tokens_per_s = double(config_.train.global_batch * config_.model.context) / record.ms * 1e3;
  record.mfu = mfu_.At(record.tokens_per_s);
  record.peak_bytes = int64_t(runtime_.memory().PeakBytes());
  Log(record);
}

absl::Status Trainer::CheckLog() { return FirstFault(mesh_.World(), lost_); }

}  // namespace weft
