// EventLog: a TensorBoard event file. `tensorboard --logdir FOLDER` plots its scalars during the run.
#pragma once
#include <chrono>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/log/log_file.h"
#include "weft/train/log/log_sink.h"

namespace weft {

class EventLog final : public LogSink {
 public:
  // Creates a new file, events.out.tfevents.SECONDS.HOST, for a run that continues after start_step. TensorBoard reads
  // the files of a folder in the order of their names, and drops what earlier files contain about later steps.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& folder, int64_t start_step);
  // Steps are flushed about once a second. If another process removed or moved the file, the log continues in a new
  // file, and a note says that earlier records are missing.
  absl::Status Write(const LogRecord& record) override;
  std::string path() const override { return file_.path(); }

 private:
  EventLog(std::string folder, LogFile file) : folder_(std::move(folder)), file_(std::move(file)) {}
  static absl::StatusOr<LogFile> Begin(const std::string& folder, int64_t start_step);
  absl::Status ContinueIfLost(int64_t step);
  absl::Status Flush();

  std::string folder_;
  LogFile file_;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace weft
