// RunLog: writes each record of a run to all of its sinks: the terminal, and the outputs in the config's log section.
// Only rank 0 opens one; a default-constructed log drops all records.
//
//   absl::StatusOr<RunLog> log = RunLog::Open(config, resumed_step, notices);
//   absl::Status status = log->Write(StepRecord{.step = 1, .loss = loss});
//
// Thread-safe, because checkpoints are saved concurrently with training.
#pragma once
#include <memory>
#include <mutex>
#include <optional>
#include <vector>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/core/host/path_lock.h"
#include "weft/train/config/config.h"
#include "weft/train/log/log_sink.h"

namespace weft {

struct LogOutput;

class RunLog {
 public:
  RunLog() = default;
  // Creates the files and their folders, and saves the merged config next to the JSON lines. A resumed run appends to
  // its files. Any other run first renames existing files, so that no log is lost. Returns kInvalidArgument if another
  // run writes to one of them. `notices` reports what happened to
  // files and must outlive the log.
  static absl::StatusOr<RunLog> Open(const Config& config, std::optional<int64_t> resumed_step, Notices& notices);
  // After a write error a sink is dropped, because later records would leave a gap. Returns the first such error, once.
  absl::Status Write(const LogRecord& record);

 private:
  absl::Status Add(const LogOutput& output, const Config& config, std::optional<int64_t> resumed_step);

  std::unique_ptr<std::mutex> mutex_ = std::make_unique<std::mutex>();  // protects sinks_
  std::vector<std::unique_ptr<LogSink>> sinks_;
  std::vector<std::unique_ptr<PathLock>> locks_;  // of their files
  Notices* notices_ = nullptr;                    // null unless the log was opened
};

}  // namespace weft
