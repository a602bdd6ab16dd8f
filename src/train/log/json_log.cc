#include "weft/train/log/json_log.h"

#include <cstdio>
#include <filesystem>

#include "weft/core/host/message.h"

namespace weft {
namespace {

// Of a file that can be read; one that cannot be has no line to end.
bool EndsInALine(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return true;
  int last = std::fseek(file, -1, SEEK_END) == 0 ? std::fgetc(file) : EOF;
  std::fclose(file);
  return last == '\n' || last == EOF;
}

}  // namespace

absl::StatusOr<LogFile> JsonLog::OpenFile(const std::string& path, bool append) {
  std::error_code error;  // a folder that cannot be made shows when the file is opened
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  bool cut = append && !EndsInALine(path);
  absl::StatusOr<LogFile> file = LogFile::Open(path, append ? LogFile::Begin::kAppend : LogFile::Begin::kEmpty);
  if (!file.ok() || !cut) return file;
  if (absl::Status s = file->Append("\n"); !s.ok()) return s;
  if (absl::Status s = file->Flush(); !s.ok()) return s;
  return file;
}

absl::StatusOr<std::unique_ptr<JsonLog>> JsonLog::Open(const std::string& path, bool append) {
  absl::StatusOr<LogFile> file = OpenFile(path, append);
  if (!file.ok()) return file.status();
  return std::unique_ptr<JsonLog>(new JsonLog(*std::move(file)));
}

absl::Status JsonLog::Write(const LogRecord& record) {
  std::string line = std::visit([](const auto& r) { return JsonLine(r); }, record) + "\n";
  if (absl::Status s = ContinueIfLost(); !s.ok()) return s;
  if (std::holds_alternative<StartRecord>(record)) start_ = line;
  return WriteText(line);
}

absl::Status JsonLog::ContinueIfLost() {
  std::string loss = file_.Loss();
  if (loss.empty()) return absl::OkStatus();
  absl::StatusOr<LogFile> file = OpenFile(file_.path(), /*append=*/true);
  if (!file.ok()) return file.status();
  PrintStderr("note: {} {} while the run writes to it: the records so far are missing there, later ones follow\n",
              file_.path(), loss);
  file_ = *std::move(file);
  return WriteText(start_);
}

absl::Status JsonLog::WriteText(const std::string& text) {
  absl::Status status = file_.Append(text);
  return status.ok() ? file_.Flush() : status;
}

}  // namespace weft
