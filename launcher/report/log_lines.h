// LogLines: reads the lines of a log, with one line at a time in memory.
//
//   absl::StatusOr<LogLines> lines = LogLines::Open("runs/a.jsonl");
//   while (lines->Next()) Use(lines->text(), lines->place());
//   status = lines->status();
#pragma once
#include <cstdint>
#include <fstream>
#include <limits>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"

namespace weft {

class LogLines {
 public:
  // Errors name the path and what is there instead of a readable file.
  static absl::StatusOr<LogLines> Open(const std::string& path);
  // Reads the next line. Returns false if there is none or it cannot be read. Does not read lines that begin at offset
  // `end` or later, because a log may grow while it is read.
  bool Next(int64_t end = std::numeric_limits<int64_t>::max());
  std::string_view text() const { return text_; }
  std::string place() const;                  // "runs/a.jsonl:12"
  int64_t number() const { return number_; }  // from 1
  int64_t offset() const { return offset_; }  // of the end of the line in the file
  const absl::Status& status() const { return status_; }

 private:
  LogLines(std::string path, std::ifstream file);

  std::string path_;
  std::ifstream file_;
  std::vector<char> buffer_;
  std::string_view text_;
  int64_t number_ = 0, offset_ = 0;
  absl::Status status_;
};

}  // namespace weft
