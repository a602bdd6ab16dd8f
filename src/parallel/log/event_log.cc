#include "parallel/log/event_log.h"

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <vector>

#include "core/base/host_name.h"
#include "fmt/format.h"
#include "parallel/log/event_record.h"

namespace weft {
namespace {

// The scalars of a record; what is not known is left out. A name up to '/' is a section of TensorBoard's page.
template <class Record>
struct Row {
  const char* tag;
  std::optional<double> (*value)(const Record&);
};
constexpr Row<StepRecord> kStepRows[] = {
    {"loss/train", [](const StepRecord& r) { return std::optional(r.loss); }},
    {"grad_norm", [](const StepRecord& r) { return std::optional(r.grad_norm); }},
    {"learning_rate", [](const StepRecord& r) { return std::optional(r.lr); }},
    {"tokens_per_second", [](const StepRecord& r) { return std::optional(r.tokens_per_s); }},
    {"mfu", [](const StepRecord& r) { return r.mfu; }},
    {"memory/peak_bytes", [](const StepRecord& r) { return std::optional<double>(r.peak_bytes); }},
    {"loss_scale/scale", [](const StepRecord& r) { return r.loss_scale; }},
    {"loss_scale/skipped_updates",
     [](const StepRecord& r) { return r.loss_scale ? std::optional(double(r.skipped)) : std::nullopt; }},
};
constexpr Row<EvalRecord> kEvalRows[] = {
    {"loss/validation", [](const EvalRecord& r) { return std::optional(r.val_loss); }},
    {"bits_per_byte/validation", [](const EvalRecord& r) { return BitsPerByte(r); }},
};

template <class Record, size_t n>
std::vector<Scalar> ScalarsOf(const Record& record, const Row<Record> (&rows)[n]) {
  std::vector<Scalar> scalars;
  for (const Row<Record>& row : rows)
    if (std::optional<double> value = row.value(record)) scalars.push_back({row.tag, float(*value)});
  return scalars;
}

double WallTime() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

absl::Status Unwritable(const std::string& path, int error) {
  return absl::UnavailableError(fmt::format("{}: cannot be written ({})", path, std::strerror(error)));
}

}  // namespace

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const std::string& folder, int64_t start_step) {
  std::error_code ignored;  // a folder that cannot be made shows when the file is opened
  std::filesystem::create_directories(folder, ignored);
  std::string path, host = HostName();
  std::FILE* file = nullptr;
  // A second start in the same second takes the next one's name, which sorts behind the first.
  for (auto second = int64_t(WallTime()); !file; second++) {
    path = (std::filesystem::path(folder) / fmt::format("events.out.tfevents.{:010}.{}", second, host)).string();
    file = std::fopen(path.c_str(), "wbx");
    if (!file && errno != EEXIST)
      return absl::InvalidArgumentError(
          fmt::format("{}: cannot be written ({}); log.tensorboard names a folder to be made or written to", path,
                      std::strerror(errno)));
  }
  std::unique_ptr<EventLog> log(new EventLog(path, file));
  if (absl::Status s = log->Append(VersionRecord(WallTime())); !s.ok()) return s;
  if (absl::Status s = log->Append(RestartRecord(WallTime(), start_step + 1)); !s.ok()) return s;
  if (absl::Status s = log->Flush(); !s.ok()) return s;
  return log;
}

absl::Status EventLog::Write(const LogRecord& record) {
  if (auto* step = std::get_if<StepRecord>(&record)) {
    absl::Status s = Append(ScalarsRecord(WallTime(), step->step, ScalarsOf(*step, kStepRows)));
    bool due = std::chrono::steady_clock::now() - flushed_ >= std::chrono::seconds(1);
    return s.ok() && due ? Flush() : s;
  }
  if (auto* eval = std::get_if<EvalRecord>(&record))
    if (absl::Status s = Append(ScalarsRecord(WallTime(), eval->step, ScalarsOf(*eval, kEvalRows))); !s.ok()) return s;
  return Flush();
}

absl::Status EventLog::Append(const std::string& record) {
  bool written = std::fwrite(record.data(), 1, record.size(), file_.get()) == record.size();
  return written ? absl::OkStatus() : Unwritable(path_, errno);
}

absl::Status EventLog::Flush() {
  flushed_ = std::chrono::steady_clock::now();
  return std::fflush(file_.get()) == 0 ? absl::OkStatus() : Unwritable(path_, errno);
}

}  // namespace weft
