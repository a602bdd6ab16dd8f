#include "launcher/report/log_lines.h"

#include <filesystem>

#include "fmt/format.h"

namespace weft {
namespace {

// The longest line that is read. It is longer than any start event, which contains the config. A file that is not a log
// may be a single line of gigabytes.
constexpr size_t kLongest = size_t(1) << 20;

// Returns what is at the path instead of a readable file.
std::string Instead(const std::string& path) {
  std::error_code error;
  std::filesystem::file_status there = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(there)) return "a folder";
  if (std::filesystem::is_regular_file(there)) return "one that cannot be read";
  return std::filesystem::exists(there) ? "something else" : "nothing of that name";
}

}  // namespace

LogLines::LogLines(std::string path, std::ifstream file)
    : path_(std::move(path)), file_(std::move(file)), buffer_(kLongest + 1) {}

absl::StatusOr<LogLines> LogLines::Open(const std::string& path) {
  std::error_code error;
  std::ifstream file;
  if (std::filesystem::is_regular_file(path, error)) file.open(path, std::ios::binary);  // opening a FIFO would block
  if (file.is_open()) return LogLines(path, std::move(file));
  return absl::InvalidArgumentError(fmt::format(
      "{}: expected a file of JSON lines, got {}; train with log.jsonl=runs/a.jsonl, for example, and give that", path,
      Instead(path)));
}

bool LogLines::Next(int64_t end) {
  if (!status_.ok() || offset_ >= end || !file_.good()) return false;
  file_.getline(buffer_.data(), std::streamsize(buffer_.size()));
  int64_t read = file_.gcount();  // includes the newline, if any
  if (read == 0 || file_.bad()) {
    if (file_.bad()) status_ = absl::InvalidArgumentError(path_ + ": cannot be read to its end");
    return false;
  }
  number_++;
  offset_ += read;
  if (file_.fail())
    status_ =
        absl::InvalidArgumentError(fmt::format("{}: expected a JSON object, got a line of more than {} bytes; give "
                                               "a file that log.jsonl wrote",
                                               place(), kLongest));
  text_ = std::string_view(buffer_.data(), size_t(file_.eof() ? read : read - 1));
  return status_.ok();
}

std::string LogLines::place() const { return fmt::format("{}:{}", path_, number_); }

}  // namespace weft
