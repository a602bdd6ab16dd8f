#include "weft/train/log/event_log.h"

#include <fmt/format.h>

#include <filesystem>
#include <vector>

#include "weft/core/host/host_name.h"
#include "weft/train/log/event_record.h"

namespace weft {
namespace {

// The scalars of a record; unknown values are left out. A tag's part before '/' is a section of TensorBoard's page.
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

}  // namespace

absl::StatusOr<LogFile> EventLog::Begin(const std::string& folder, int64_t start_step) {
  std::error_code ignored;  // if the folder cannot be created, opening the file reports it
  std::filesystem::create_directories(folder, ignored);
  absl::StatusOr<LogFile> file = absl::AlreadyExistsError("");
  // A second start in the same second takes the name of the next second, which sorts after the first.
  for (auto second = int64_t(WallTime()); absl::IsAlreadyExists(file.status()); second++)
    file =
        LogFile::Open(std::filesystem::path(folder) / fmt::format("events.out.tfevents.{:010}.{}", second, HostName()),
                      LogFile::Begin::kNew);
  if (!file.ok()) return file.status();
  for (const std::string& record : {VersionRecord(WallTime()), RestartRecord(WallTime(), start_step + 1)})
    if (absl::Status s = file->Append(record); !s.ok()) return s;
  if (absl::Status s = file->Flush(); !s.ok()) return s;
  return file;
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const std::string& folder, int64_t start_step) {
  absl::StatusOr<LogFile> file = Begin(folder, start_step);
  if (absl::IsInvalidArgument(file.status()))
    return absl::InvalidArgumentError(std::string(file.status().message()) +
                                      "; log.tensorboard names a folder to be made or written to");
  if (!file.ok()) return file.status();
  return std::unique_ptr<EventLog>(new EventLog(folder, *std::move(file)));
}

absl::Status EventLog::Write(const LogRecord& record) {
  absl::Status status;
  if (std::holds_alternative<ProgressRecord>(record) || std::holds_alternative<SampleRecord>(record) ||
      std::holds_alternative<NoteRecord>(record))
    return status;
  if (auto* step = std::get_if<StepRecord>(&record)) {
    bool due = std::chrono::steady_clock::now() - flushed_ >= std::chrono::seconds(1);
    if (due) status = ContinueIfLost(step->step);
    if (status.ok()) status = file_.Append(ScalarsRecord(WallTime(), step->step, ScalarsOf(*step, kStepRows)));
    return status.ok() && due ? Flush() : status;
  }
  if (auto* eval = std::get_if<EvalRecord>(&record)) {
    status = ContinueIfLost(eval->step);
    if (status.ok()) status = file_.Append(ScalarsRecord(WallTime(), eval->step, ScalarsOf(*eval, kEvalRows)));
  }
  return status.ok() ? Flush() : status;
}

// TensorBoard reads on in the next file of the folder. It would not reopen a file with the same name.
absl::Status EventLog::ContinueIfLost(int64_t step) {
  std::string loss = file_.Loss();
  if (loss.empty()) return absl::OkStatus();
  absl::StatusOr<LogFile> file = Begin(folder_, step - 1);
  if (!file.ok()) return file.status();
  Note(fmt::format("{} {} while the run writes to it: the records so far are missing, later ones follow in {}",
                   file_.path(), loss, file->path()));
  file_ = *std::move(file);
  return absl::OkStatus();
}

absl::Status EventLog::Flush() {
  flushed_ = std::chrono::steady_clock::now();
  return file_.Flush();
}

}  // namespace weft
