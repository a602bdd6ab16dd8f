// LogFile: a file that a run writes to throughout, while other processes may remove, replace or truncate it.
#pragma once
#include <sys/stat.h>

#include <cstdint>
#include <cstdio>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"

namespace weft {

class LogFile {
 public:
  enum class Begin : uint8_t {
    kAppend,  // keep the contents of the file
    kNew      // the file must not exist; kAlreadyExists if it does
  };
  // Requires an existing folder. Errors name the path and the system's reason; kInvalidArgument if the file cannot be
  // opened.
  static absl::StatusOr<LogFile> Open(const std::string& path, Begin begin);

  // Opens a file of lines for appending, and creates its folder if it is missing. Ends a line that a full disk or a
  // power cut left unfinished, so that it does not spoil the next line.
  static absl::StatusOr<LogFile> OpenLines(const std::string& path);

  // Writes at the end of the file, through a buffer. Returns kUnavailable if the file cannot be written.
  absl::Status Append(std::string_view bytes);
  absl::Status Flush();
  absl::Status AppendNow(std::string_view bytes);  // also flushes
  bool IsEmpty() const { return appended_ == 0; }
  // Returns what happened to the file, as a verb: "was removed". Returns "" if the path still leads to the file and it
  // holds everything that was flushed. Always returns "" if it is not a regular file.
  std::string Loss() const;
  const std::string& path() const { return path_; }

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  LogFile(std::string path, std::FILE* file, const struct stat& opened)
      : path_(std::move(path)), file_(file), opened_(opened), appended_(opened.st_size), flushed_(appended_) {}

  std::string path_;
  std::unique_ptr<std::FILE, Close> file_;
  struct stat opened_;
  int64_t appended_, flushed_;  // the expected size of the file in bytes, with and without buffered writes
};

}  // namespace weft
