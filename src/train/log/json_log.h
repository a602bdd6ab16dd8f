// JsonLog: a file of JSON lines. Each line is handed to the system before Write returns, so a killed run leaves only
// whole lines.
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

  // Creates the folder if it is missing. Keeps the contents of the file. Ends a line that a full disk or a power cut
  // left unfinished, so that it does not spoil the next line.
  static absl::StatusOr<std::unique_ptr<JsonLog>> Open(const std::string& path);
  // If another process removed, moved or truncated the file, the log continues at its path, beginning with the start
  // record, and a note says that earlier records are missing.
  absl::Status Write(const LogRecord& record) override;
  std::string path() const override { return file_.path(); }

 private:
  explicit JsonLog(LogFile file) : file_(std::move(file)) {}
  absl::Status ContinueIfLost();

  LogFile file_;
  std::string start_;  // the line of the start record
};

}  // namespace weft
