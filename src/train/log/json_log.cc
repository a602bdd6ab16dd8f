#include "weft/train/log/json_log.h"

#include <fmt/format.h>

namespace weft {

absl::StatusOr<std::unique_ptr<JsonLog>> JsonLog::Open(const std::string& path) {
  absl::StatusOr<LogFile> file = LogFile::OpenLines(path);
  if (!file.ok()) return file.status();
  return std::unique_ptr<JsonLog>(new JsonLog(*std::move(file)));
}

absl::Status JsonLog::Write(const LogRecord& record) {
  std::string line = std::visit([](const auto& r) { return JsonLine(r); }, record);
  if (line.empty()) return absl::OkStatus();
  line += "\n";
  if (absl::Status s = ContinueIfLost(); !s.ok()) return s;
  if (std::holds_alternative<StartRecord>(record)) start_ = line;
  return file_.AppendNow(line);
}

absl::Status JsonLog::ContinueIfLost() {
  std::string loss = file_.Loss();
  if (loss.empty()) return absl::OkStatus();
  absl::StatusOr<LogFile> file = LogFile::OpenLines(file_.path());
  if (!file.ok()) return file.status();
  Note(fmt::format("{} {} while the run writes to it: the records so far are missing there, later ones follow",
                   file_.path(), loss));
  file_ = *std::move(file);
  return file_.AppendNow(start_);
}

}  // namespace weft
