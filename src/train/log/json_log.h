// JsonLog: a file of JSON lines, each on disk's side of the process when Write returns: a killed run leaves whole
// lines.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/log/log_file.h"
#include "weft/train/log/log_sink.h"

namespace weft {

class JsonLog final : public LogSink {
 public:
  static constexpr const char* kStart = "{\"event\":";  // how the file starts

  // Makes the folder where it is missing. What the file holds stays. A line that a full disk or a power cut has left
  // unfinished is ended, so that it spoils no other.
  static absl::StatusOr<std::unique_ptr<JsonLog>> Open(const std::string& path);
  // Where another process has removed, moved or cut the file, the log continues at its path, with the start record
  // first, and a note says that earlier records are missing.
  absl::Status Write(const LogRecord& record) override;
  std::string path() const override { return file_.path(); }

 private:
  explicit JsonLog(LogFile file) : file_(std::move(file)) {}
  absl::Status ContinueIfLost();

  LogFile file_;
  std::string start_;  // the line of the start record
};

}  // namespace weft
