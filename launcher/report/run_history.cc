#include "launcher/report/run_history.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "fmt/format.h"
#include "launcher/report/log_line.h"
#include "launcher/report/log_lines.h"

namespace weft {
namespace {

// The result of a first pass over the log: where it ends, and after which step each start continues.
struct Outline {
  int64_t end = 0;
  std::vector<int64_t> starts;

  // Returns the last step whose record counts for this start. Later starts repeat the steps after it.
  int64_t LastStep(size_t start) const {
    auto later = starts.begin() + std::ptrdiff_t(start) + 1;
    return later < starts.end() ? *std::min_element(later, starts.end()) : std::numeric_limits<int64_t>::max();
  }
};

absl::StatusOr<Outline> OutlineOf(const std::string& path) {
  absl::StatusOr<LogLines> lines = LogLines::Open(path);
  if (!lines.ok()) return lines.status();
  Outline outline;
  while (lines->Next()) {
    if (lines->text().find("\"start\"") == std::string_view::npos) continue;  // most lines need not be parsed twice
    absl::StatusOr<std::optional<LogRecord>> record = ParseLogLine(lines->text(), lines->place());
    if (!record.ok() || !*record) continue;
    if (auto* start = std::get_if<StartRecord>(&**record)) outline.starts.push_back(start->resumed_step.value_or(0));
  }
  outline.end = lines->offset();
  return lines->status().ok() ? absl::StatusOr<Outline>(outline) : lines->status();
}

class Reader {
 public:
  explicit Reader(Outline outline) : outline_(std::move(outline)) {}

  absl::Status Take(std::string_view line, const std::string& place) {
    absl::StatusOr<std::optional<LogRecord>> record = ParseLogLine(line, place);
    bool begins = record.ok() && *record && std::holds_alternative<StartRecord>(**record);
    if (!broken_.ok() && !begins) return broken_;
    history_.cut_lines += !record.ok();
    bool other_file = !record.ok() && starts_ == 0 && !line.starts_with("{\"event\":");
    broken_ = other_file ? Unfit(place, "the log of a run, whose lines begin with {\"event\":, got another file")
                         : record.status();
    if (!record.ok() || !*record) return absl::OkStatus();
    if (!begins && starts_ == 0) return Unfit(place, "the start event first, got another");
    if (begins && starts_ == outline_.starts.size()) return Unfit(place, "the log to stay as it is, got another start");
    std::visit([this](const auto& r) { Add(r); }, **record);
    return absl::OkStatus();
  }
  absl::StatusOr<RunHistory> Done(const std::string& path) {
    if (starts_ == 0) return broken_.ok() ? Unfit(path, "a log with a start event, got none") : broken_;
    history_.seconds += session_seconds_;
    return std::move(history_);
  }

 private:
  static absl::Status Unfit(const std::string& place, const char* what) {
    return absl::InvalidArgumentError(fmt::format("{}: expected {}; give a file that log.jsonl wrote", place, what));
  }
  bool Counts(int64_t step) const { return step <= last_step_; }

  void Add(const StartRecord& r) {
    if (starts_ > 0) history_.resumed.push_back(r.resumed_step.value_or(0));
    last_step_ = outline_.LastStep(starts_++);
    history_.seconds += std::exchange(session_seconds_, 0);
    history_.start = r;
    history_.end.reset();
    history_.stop.reset();
    history_.startup.reset();
  }
  void Add(const StepRecord& r) {
    session_seconds_ += r.ms / 1000;
    if (!Counts(r.step)) return;
    RunHistory& h = history_;
    h.last = r;
    h.loss.Add(r.step, r.loss);
    h.grad_norm.Add(r.step, r.grad_norm);
    h.lr.Add(r.step, r.lr);
    h.tokens_per_s.Add(r.step, r.tokens_per_s);
    if (r.mfu) h.mfu.Add(r.step, *r.mfu);
    if (r.peak_bytes) h.peak_bytes = std::max(*r.peak_bytes, h.peak_bytes.value_or(0));
    h.tokens += double(h.start.tokens_per_step);
    h.step_seconds += r.ms / 1000;
  }
  void Add(const EvalRecord& r) {
    session_seconds_ += r.ms / 1000;
    if (!Counts(r.step)) return;
    history_.last_eval = r;
    history_.val_loss.Add(r.step, r.val_loss);
    if (std::isfinite(r.val_loss) && (!history_.best_eval || r.val_loss < history_.best_eval->val_loss))
      history_.best_eval = r;
  }
  void Add(const EndRecord& r) {
    session_seconds_ = r.seconds;  // includes the time between steps and evaluations
    history_.end = r;
  }
  void Add(const StopRecord& r) { history_.stop = r; }
  void Add(const StartupRecord& r) { history_.startup = r; }
  void Add(const ProgressRecord&) {}  // not in logs
  void Add(const SampleRecord&) {}
  void Add(const NoteRecord&) {}     // nothing to draw
  void Add(const ProfileRecord&) {}  // the trace shows it
  void Add(const SaveRecord& r) {
    if (Counts(r.step)) history_.saved = r;
  }

  Outline outline_;
  RunHistory history_;
  absl::Status broken_;  // the error of the latest line, if it is not an event
  size_t starts_ = 0;
  int64_t last_step_ = 0;
  double session_seconds_ = 0;
};

}  // namespace

absl::StatusOr<RunHistory> ReadRunHistory(const std::string& path) {
  absl::StatusOr<Outline> outline = OutlineOf(path);
  if (!outline.ok()) return outline.status();
  absl::StatusOr<LogLines> lines = LogLines::Open(path);
  if (!lines.ok()) return lines.status();
  int64_t end = outline->end;
  Reader reader(*std::move(outline));
  while (lines->Next(end))
    if (absl::Status s = reader.Take(lines->text(), lines->place()); !s.ok()) return s;
  if (!lines->status().ok()) return lines->status();
  return reader.Done(path);
}

}  // namespace weft
