// RunLog: what a run reports, each record to all of its sinks: the terminal, and the outputs that the config's log
// section names. It is opened on rank 0 alone; one made by default swallows all.
//
//   absl::StatusOr<RunLog> log = RunLog::Open(config, resumed_step, notices);
//   absl::Status status = log->Write(StepRecord{.step = 1, .loss = loss});
//
// Several threads may write: what saves checkpoints does so beside the training.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/train/config/config.h"
#include "weft/train/log/log_sink.h"

namespace weft {

class RunLog {
 public:
  RunLog() = default;
  // Makes the files and their folders, and saves the merged config beside the JSON lines. A run that was resumed
  // appends to its files; any other moves files of that name aside first, so that no log is lost. What becomes of files
  // is said by the notices, which outlive the log.
  static absl::StatusOr<RunLog> Open(const Config& config, std::optional<int64_t> resumed_step, Notices& notices);
  // A sink that cannot be written gets no record after that, for it would not join what is there. The first such fault
  // is the answer, once.
  absl::Status Write(const LogRecord& record);

 private:
  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // of the sinks
  std::vector<std::unique_ptr<LogSink>> sinks_;
  Notices* notices_ = nullptr;  // of a log that was opened
};

}  // namespace weft
