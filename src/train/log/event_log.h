// EventLog: a TensorBoard event file. `tensorboard --logdir FOLDER` draws its scalars while the run goes on.
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
  // A new file, events.out.tfevents.SECONDS.HOST, of a run that goes on after start_step. Readers take the files of a
  // folder in the order of their names, and forget what older ones say of later steps.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& folder, int64_t start_step);
  // The file is about a second behind. Where another process has removed or moved it, the log continues in a new file,
  // and a note says that earlier records are missing.
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
