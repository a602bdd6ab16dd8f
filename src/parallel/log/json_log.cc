#include "parallel/log/json_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>

#include "fmt/format.h"

namespace weft {
namespace {

std::string Unwritable(const std::string& path) {
  return fmt::format("{}: cannot be written ({})", path, std::strerror(errno));
}

// Of a file that can be read; one that cannot be has no line to end.
bool EndsInALine(const std::string& path) {
  std::FILE* file = std::fopen(path.c_str(), "rb");
  if (!file) return true;
  int last = std::fseek(file, -1, SEEK_END) == 0 ? std::fgetc(file) : EOF;
  std::fclose(file);
  return last == '\n' || last == EOF;
}

}  // namespace

absl::StatusOr<std::unique_ptr<JsonLog>> JsonLog::Open(const std::string& path, bool append) {
  std::error_code error;  // a folder that cannot be made shows when the file is opened
  std::filesystem::path parent = std::filesystem::path(path).parent_path();
  if (!parent.empty()) std::filesystem::create_directories(parent, error);
  bool cut = append && !EndsInALine(path);
  File file(std::fopen(path.c_str(), append ? "ab" : "wb"));
  if (!file) return absl::InvalidArgumentError(Unwritable(path));
  std::unique_ptr<JsonLog> log(new JsonLog(path, std::move(file)));
  if (!cut) return log;
  if (absl::Status s = log->WriteText("\n"); !s.ok()) return s;
  return log;
}

absl::Status JsonLog::Write(const LogRecord& record) {
  return WriteText(std::visit([](const auto& r) { return JsonLine(r); }, record) + "\n");
}

absl::Status JsonLog::WriteText(const std::string& text) {
  bool written = std::fwrite(text.data(), 1, text.size(), file_.get()) == text.size();
  if (written && std::fflush(file_.get()) == 0) return absl::OkStatus();
  return absl::UnavailableError(Unwritable(path_));
}

}  // namespace weft
