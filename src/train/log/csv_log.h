// CsvLog: a CSV table of a run's steps, for spreadsheets and scripts. The header has the names; each step is one line.
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

  // Creates the folder if it is missing. Writes the header to an empty file; keeps the contents of any other file.
  static absl::StatusOr<std::unique_ptr<CsvLog>> Open(const std::string& path);
  // Writes steps and ignores other records. When Write returns, the whole line is in the file. Doubles have enough
  // digits to read back exactly, and an unknown number is an empty cell. If another process removed, moved or truncated
  // the file, the table continues at its path, and a note says that earlier lines are missing.
  absl::Status Write(const LogRecord& record) override;
  std::string path() const override { return file_.path(); }

 private:
  explicit CsvLog(LogFile file) : file_(std::move(file)) {}
  absl::Status ContinueIfLost();

  LogFile file_;
};

}  // namespace weft
