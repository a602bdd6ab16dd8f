#include "weft/train/log/run_log.h"

#include <fmt/format.h>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>

#include "weft/train/config/config_check.h"
#include "weft/train/io/output_path.h"
#include "weft/train/log/log_outputs.h"
#include "weft/train/log/standard_output.h"
#include "weft/train/log/terminal_log.h"

namespace weft {
namespace {

absl::Status SaveConfig(const Config& config) {
  std::string path = SavedConfigPath(config);
  std::ofstream file(path);
  file << ToYaml(config) << std::flush;
  if (file.good()) return absl::OkStatus();
  return absl::UnavailableError(fmt::format("{}: cannot be written ({})", path, std::strerror(errno)));
}

// Before a run starts from the beginning, renames the log of the previous run.
absl::Status KeepOlder(const std::string& path, Notices& notices) {
  std::error_code error;
  bool there = std::filesystem::is_regular_file(path, error) && std::filesystem::file_size(path, error) > 0;
  if (!there || error) return absl::OkStatus();
  absl::StatusOr<std::string> aside = MoveAside(path);
  if (!aside.ok()) return aside.status();
  notices.Say(
      fmt::format("{} had the log of another run, which is {} now; a run that is resumed appends", path, *aside));
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<RunLog> RunLog::Open(const Config& config, std::optional<int64_t> resumed_step, Notices& notices) {
  RunLog log;
  log.notices_ = &notices;
  log.sinks_.push_back(std::make_unique<TerminalLog>(config.train.steps, config.log.every, resumed_step.value_or(0),
                                                     TerminalStyle::OfStdout()));
  for (const LogOutput& output : LogOutputs())
    if (!output.PathIn(config).empty())
      if (absl::Status s = log.Add(output, config, resumed_step); !s.ok()) return s;
  if (config.log.jsonl.empty()) return log;
  if (absl::Status s = SaveConfig(config); !s.ok()) return s;
  return log;
}

// Locks the file that is there before it is renamed, and the new one afterwards.
absl::Status RunLog::Add(const LogOutput& output, const Config& config, std::optional<int64_t> resumed_step) {
  const std::string& path = output.PathIn(config);
  auto lock = std::make_unique<PathLock>();
  auto take = [&] {
    absl::Status taken = output.is_folder() ? absl::OkStatus() : lock->Take(path);
    return taken.ok() ? taken : RefuseKey(config, output.key, taken.message());
  };
  if (absl::Status s = take(); !s.ok()) return s;
  if (!resumed_step && !output.is_folder())
    if (absl::Status s = KeepOlder(path, *notices_); !s.ok()) return s;
  absl::StatusOr<std::unique_ptr<LogSink>> sink = output.open(path, resumed_step.value_or(0));
  if (!sink.ok()) return sink.status();
  if (absl::Status s = take(); !s.ok()) return s;
  if (absl::Status s = Print(fmt::format("{}: {}\n", output.called, (*sink)->path())); !s.ok()) return s;
  sinks_.push_back(*std::move(sink));
  locks_.push_back(std::move(lock));
  return absl::OkStatus();
}

absl::Status RunLog::Write(const LogRecord& record) {
  std::unique_lock lock(*mutex_);
  absl::Status first;
  std::vector<std::string> notes;
  std::erase_if(sinks_, [&](const std::unique_ptr<LogSink>& sink) {
    absl::Status status = sink->Write(record);
    for (std::string& note : sink->TakeNotes()) notes.push_back(std::move(note));
    first.Update(status);
    return !status.ok();
  });
  lock.unlock();
  // Without the lock, because a listener may write the note to this log.
  for (const std::string& note : notes) notices_->Say(note);
  return first;
}

}  // namespace weft
