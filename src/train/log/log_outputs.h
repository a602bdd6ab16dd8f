// LogOutput: one of the places that config.log names for a run's records, and how it is opened.
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
  const char* called;      // what the terminal calls it
  const char* lines;       // what its file holds, for people; null: the path is a folder
  const char* file_start;  // how the file starts
  // Adds to what is there. The run resumes after start_step, 0 for a new run.
  absl::StatusOr<std::unique_ptr<LogSink>> (*open)(const std::string& path, int64_t start_step);

  const std::string& PathIn(const Config& config) const { return config.log.*path; }
  bool is_folder() const { return !lines; }
};

// In the order in which they are opened.
std::span<const LogOutput> LogOutputs();

}  // namespace weft
