// JsonLog: a file of JSON lines, each on disk's side of the process when Write returns: a killed run leaves whole
// lines.
#pragma once
#include <cstdio>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "parallel/log/log_sink.h"

namespace weft {

class JsonLog final : public LogSink {
 public:
  // Makes the folder where it is missing. Appends when `append`, else starts the file afresh. A line that a full disk
  // or a power cut has left unfinished is ended, so that it spoils no other.
  static absl::StatusOr<std::unique_ptr<JsonLog>> Open(const std::string& path, bool append = false);
  absl::Status Write(const LogRecord& record) override;

 private:
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };
  using File = std::unique_ptr<std::FILE, Close>;

  JsonLog(std::string path, File file) : path_(std::move(path)), file_(std::move(file)) {}
  absl::Status WriteText(const std::string& text);

  std::string path_;
  File file_;
};

}  // namespace weft
