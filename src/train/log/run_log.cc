#include "weft/train/log/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/core/host/message.h"
#include "weft/train/log/event_log.h"
#include "weft/train/log/json_log.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/log/terminal_log.h"

namespace weft {
namespace {

absl::Status SaveConfig(const Config& config) {
  std::string path = SavedConfigPath(config.log.jsonl);
  std::ofstream file(path);
  file << ToYaml(config) << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: cannot be written ({})", path, std::strerror(errno)));
}

// What is gone with the first record is said by then.
void NoteReplaced(const std::string& path) {
  std::error_code error;
  bool there = std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0;
  if (there && !error)
    PrintStderr("note: {} has the log of another run, which is replaced; a run that is resumed appends\n", path);
}

}  // namespace

absl::StatusOr<RunLog> RunLog::Open(const Config& config, std::optional<int64_t> resumed_step) {
  RunLog log;
  int64_t start_step = resumed_step.value_or(0);
  log.sinks_.push_back(std::make_unique<TerminalLog>(config.train.steps, config.log.every, start_step));
  if (!config.log.jsonl.empty()) {
    if (!resumed_step) NoteReplaced(config.log.jsonl);
    auto json = JsonLog::Open(config.log.jsonl, /*append=*/resumed_step.has_value());
    if (!json.ok()) return json.status();
    log.sinks_.push_back(*std::move(json));
    if (absl::Status s = SaveConfig(config); !s.ok()) return s;
    if (absl::Status s = Print(fmt::format("log: {}\n", config.log.jsonl)); !s.ok()) return s;
  }
  if (!config.log.tensorboard.empty()) {
    auto events = EventLog::Open(config.log.tensorboard, start_step);
    if (!events.ok()) return events.status();
    if (absl::Status s = Print(fmt::format("events: {}\n", (*events)->path())); !s.ok()) return s;
    log.sinks_.push_back(*std::move(events));
  }
  return log;
}

absl::Status RunLog::Write(const LogRecord& record) {
  std::lock_guard lock(*mutex_);
  absl::Status first;
  std::erase_if(sinks_, [&](const std::unique_ptr<LogSink>& sink) {
    absl::Status status = sink->Write(record);
    first.Update(status);
    return !status.ok();
  });
  return first;
}

}  // namespace weft
