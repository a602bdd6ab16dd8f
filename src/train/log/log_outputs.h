// LogOutput: an output in the config's log section, and how to open it.
#pragma once
#include <memory>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "weft/train/config/config.h"
#include "weft/train/log/log_sink.h"

namespace weft {

struct LogOutput {
  const char* key;  // "log.jsonl"
  std::string LogConfig::*path;
  const char* called;      // its name on the terminal
  const char* lines;       // the contents of its file, for messages; null: the path is a folder
  const char* file_start;  // the first bytes of the file
  // Opens the output and keeps existing contents. The run continues after start_step, which is 0 for a new run.
  absl::StatusOr<std::unique_ptr<LogSink>> (*open)(const std::string& path, int64_t start_step);

  const std::string& PathIn(const Config& config) const { return config.log.*path; }
  bool is_folder() const { return !lines; }
};

// In the order in which the outputs are opened.
std::span<const LogOutput> LogOutputs();

}  // namespace weft
