// EventLog: a TensorBoard event file. `tensorboard --logdir FOLDER` draws its scalars while the run goes on.
#pragma once
#include <chrono>
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "parallel/log/log_sink.h"

namespace weft {

class EventLog final : public LogSink {
 public:
  // A new file, events.out.tfevents.SECONDS.HOST, of a run that goes on after start_step. Readers take the files of a
  // folder in the order of their names, and forget what older ones say of later steps.
  static absl::StatusOr<std::unique_ptr<EventLog>> Open(const std::string& folder, int64_t start_step);
  // The file is about a second behind.
  absl::Status Write(const LogRecord& record) override;
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  EventLog(std::string path, std::FILE* file) : path_(std::move(path)), file_(file) {}
  absl::Status Append(const std::string& record);
  absl::Status Flush();

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  std::chrono::steady_clock::time_point flushed_;
};

}  // namespace weft
