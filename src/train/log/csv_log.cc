#include "weft/train/log/csv_log.h"

#include <fmt/format.h>

#include "weft/train/log/step_columns.h"

namespace weft {
namespace {

std::string Names() {
  std::string line;
  for (const StepColumn& column : kStepColumns) line += (line.empty() ? "" : ",") + std::string(column.name);
  return line + "\n";
}

std::string LineOf(const StepRecord& record) {
  std::string line;
  for (const StepColumn& column : kStepColumns) {
    if (&column != kStepColumns) line += ',';
    if (std::optional<double> value = column.value(record)) line += fmt::format("{:.17g}", *value);
  }
  return line + "\n";
}

}  // namespace

absl::StatusOr<std::unique_ptr<CsvLog>> CsvLog::Open(const std::string& path) {
  absl::StatusOr<LogFile> file = LogFile::OpenLines(path);
  if (!file.ok()) return file.status();
  if (file->IsEmpty())
    if (absl::Status s = file->AppendNow(Names()); !s.ok()) return s;
  return std::unique_ptr<CsvLog>(new CsvLog(*std::move(file)));
}

absl::Status CsvLog::Write(const LogRecord& record) {
  auto* step = std::get_if<StepRecord>(&record);
  if (!step) return absl::OkStatus();
  if (absl::Status s = ContinueIfLost(); !s.ok()) return s;
  return file_.AppendNow(LineOf(*step));
}

absl::Status CsvLog::ContinueIfLost() {
  std::string loss = file_.Loss();
  if (loss.empty()) return absl::OkStatus();
  absl::StatusOr<std::unique_ptr<CsvLog>> next = Open(file_.path());
  if (!next.ok()) return next.status();
  Note(fmt::format("{} {} while the run writes to it: the lines so far are missing there, later ones follow",
                   file_.path(), loss));
  file_ = std::move((*next)->file_);
  return absl::OkStatus();
}

}  // namespace weft
