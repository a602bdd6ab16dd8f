// LogFile: a file that a run writes to from its start to its end, while others may remove, replace or cut it.
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
    kAppend,  // what the file holds stays
    kNew      // the file must not exist; kAlreadyExists when it does
  };
  // The folder exists. Errors name the path and the system's reason; kInvalidArgument when it cannot be opened.
  static absl::StatusOr<LogFile> Open(const std::string& path, Begin begin);

  // Opens a file of lines to add to it, and makes its folder if that is missing. A line that a full disk or a power cut
  // has left unfinished is ended, so that it spoils no other.
  static absl::StatusOr<LogFile> OpenLines(const std::string& path);

  // All writes go to the end of the file. kUnavailable when it cannot be written.
  absl::Status Append(std::string_view bytes);
  absl::Status Flush();
  absl::Status AppendNow(std::string_view bytes);  // and flushes
  bool IsEmpty() const { return appended_ == 0; }
  // What has happened to the file, as a verb: "was removed". "" when its path still leads to it and it holds all that
  // was flushed, and for everything that is not a regular file.
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
  int64_t appended_, flushed_;  // the size of the file, as far as this process knows
};

}  // namespace weft
