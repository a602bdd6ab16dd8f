// CsvLog: a table of a run's steps for spreadsheets and scripts. A line of names, then a line of numbers for each step.
#pragma once
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/log/log_file.h"
#include "weft/train/log/log_sink.h"

namespace weft {

class CsvLog final : public LogSink {
 public:
  static constexpr const char* kStart = "step,";  // how the file starts

  // Makes the folder if it is missing. An empty file gets the line of names; what a file holds stays.
  static absl::StatusOr<std::unique_ptr<CsvLog>> Open(const std::string& path);
  // Takes steps and passes over other records. Each line is whole on the file when Write returns. Doubles read back
  // exactly, and an unknown number is an empty cell. If another process has removed, moved or cut the file, the table
  // continues at its path, and a note says that earlier lines are missing.
  absl::Status Write(const LogRecord& record) override;
  std::string path() const override { return file_.path(); }

 private:
  explicit CsvLog(LogFile file) : file_(std::move(file)) {}
  absl::Status ContinueIfLost();

  LogFile file_;
};

}  // namespace weft
