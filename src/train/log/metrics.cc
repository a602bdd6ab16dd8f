#include "weft/train/log/metrics.h"

#include <algorithm>
#include <cmath>
#include <numbers>

#include "fmt/format.h"
#include "weft/core/base/memory.h"
#include "weft/train/log/step_columns.h"

namespace weft {
namespace {

std::string Quote(const std::string& text) {
  std::string quoted = "\"";
  for (char ch : text) {
    if (ch == '"' || ch == '\\') quoted += '\\';
    if (ch == '\n') {
      quoted += "\\n";
    } else if (uint8_t(ch) < 0x20) {
      quoted += fmt::format("\\u{:04x}", uint8_t(ch));
    } else {
      quoted += ch;
    }
  }
  return quoted + '"';
}

// A JSON object on one line, built member by member.
class Object {
 public:
  explicit Object(const char* event) { Raw("event", Quote(event)); }
  Object& Add(const char* name, const std::string& value) { return Raw(name, Quote(value)); }
  Object& Add(const char* name, int64_t value) { return Raw(name, fmt::format("{}", value)); }
  // JSON has no infinities and no NaN.
  Object& Add(const char* name, double value) {
    return Raw(name, std::isfinite(value) ? fmt::format("{:.17g}", value) : "null");
  }
  template <class T>
  Object& Add(const char* name, const std::optional<T>& value) {
    return value ? Add(name, *value) : Raw(name, "null");
  }
  std::string Text() const { return text_ + "}"; }

 private:
  Object& Raw(const char* name, const std::string& value) {
    text_ += fmt::format("{}\"{}\":{}", text_.empty() ? "{" : ",", name, value);
    return *this;
  }
  std::string text_;
};

// Returns "step 50/200": the step is aligned to the width of the last step.
std::string StepText(int64_t step, int64_t steps) {
  std::string total = fmt::format("{}", steps);
  return fmt::format("step {:>{}}/{}", step, total.size(), total);
}

absl::Status NotFinite(const char* what, const char* when, int64_t step, double value) {
  return absl::AbortedError(fmt::format(
      "weft: the {} {} step {} is {}, expected a finite number; lower optimizer.lr, lengthen "
      "schedule.warmup_steps, or set train.clip or lower it; executor=interpret names the first op that makes a NaN",
      what, when, step,
      std::isnan(value) ? "nan"
      : value > 0       ? "inf"
                        : "-inf"));
}

absl::Status NotFiniteAtLeastScale(const StepRecord& r, double least_scale) {
  return absl::AbortedError(
      fmt::format("weft: the gradient norm of step {} is {} although the loss scale has fallen to loss_scale.min = {} "
                  "({} updates skipped): the numbers themselves leave f16 or are NaN; use precision.compute=bf16 or "
                  "lower optimizer.lr; executor=interpret names the first op that makes a NaN",
                  r.step, std::isnan(r.grad_norm) ? "nan" : "inf", least_scale, r.skipped));
}

}  // namespace

std::string JsonLine(const StartRecord& r) {
  Object line("start");
  line.Add("version", r.version).Add("ranks", r.ranks);
  for (int axis = 0; axis < r.mesh.num_axes(); axis++)
    line.Add(r.mesh.names[size_t(axis)].c_str(), int64_t(r.mesh.sizes[size_t(axis)]));
  line.Add("parameters", r.parameters)
      .Add("steps", r.steps)
      .Add("tokens_per_step", r.tokens_per_step)
      .Add("train_tokens", r.train_tokens)
      .Add("val_tokens", r.val_tokens)
      .Add("data_bytes", r.data_bytes)
      .Add("device", r.device)
      .Add("unix_time", r.unix_time)
      .Add("config", r.config);
  if (r.resumed_step) line.Add("resumed_step", *r.resumed_step);
  if (!r.kernels.empty()) line.Add("kernels", r.kernels);
  return line.Text();
}

std::string JsonLine(const StepRecord& r) {
  Object line("step");
  for (const StepColumn& column : kStepColumns)
    if (!column.of_loss_scale || r.loss_scale) line.Add(column.name, column.value(r));
  return line.Text();
}

std::string JsonLine(const EvalRecord& r) {
  return Object("eval")
      .Add("step", r.step)
      .Add("val_loss", r.val_loss)
      .Add("bits_per_byte", BitsPerByte(r))
      .Add("tokens", r.tokens)
      .Add("bytes", r.bytes)
      .Add("ms", r.ms)
      .Text();
}

std::string JsonLine(const EndRecord& r) {
  return Object("end")
      .Add("step", r.step)
      .Add("seconds", r.seconds)
      .Add("loss", r.loss)
      .Add("val_loss", r.val_loss)
      .Text();
}

std::string JsonLine(const StopRecord& r) { return Object("stop").Add("step", r.step).Add("reason", r.reason).Text(); }

std::string JsonLine(const SaveRecord& r) {
  std::optional<double> rate;
  if (r.bytes && r.seconds > 0) rate = double(*r.bytes) / r.seconds / 1e9;
  return Object("save")
      .Add("step", r.step)
      .Add("folder", r.folder)
      .Add("seconds", r.seconds)
      .Add("bytes", r.bytes)
      .Add("gb_per_s", rate)
      .Add("stall_seconds", r.stall)
      .Text();
}

std::string JsonLine(const NoteRecord& r) { return Object("note").Add("text", r.text).Text(); }
std::string JsonLine(const ProfileRecord& r) {
  return Object("profile")
      .Add("first_step", r.first_step)
      .Add("step", r.step)
      .Add("path", r.path)
      .Add("step_ms", r.step_ms)
      .Add("kernels", r.kernels)
      .Add("collectives", r.collectives)
      .Add("waiting", r.waiting)
      .Add("hidden", r.hidden)
      .Add("neither", r.neither)
      .Text();
}

std::string JsonLine(const StartupRecord& r) {
  Object line("startup");
  for (size_t phase = 0; phase < r.seconds.size(); phase++)
    if (r.seconds[phase]) line.Add(kStartPhases[phase].name, *r.seconds[phase]);
  return line.Text();
}

std::string JsonLine(const ProgressRecord&) { return ""; }
std::string JsonLine(const SampleRecord&) { return ""; }

absl::Status CheckFinite(const StepRecord& r, double least_scale) {
  if (r.loss_scale && !std::isfinite(r.grad_norm))
    return *r.loss_scale > float(least_scale) ? absl::OkStatus() : NotFiniteAtLeastScale(r, least_scale);
  if (!std::isfinite(r.loss)) return NotFinite("loss", "of", r.step, r.loss);
  return std::isfinite(r.grad_norm) ? absl::OkStatus() : NotFinite("gradient norm", "of", r.step, r.grad_norm);
}

absl::Status CheckFinite(const EvalRecord& r) {
  if (r.tokens == 0)
    return absl::AbortedError(fmt::format(
        "weft: the evaluation after step {} met no target; give more data in data.val, or raise train.eval_batches",
        r.step));
  return std::isfinite(r.val_loss) ? absl::OkStatus() : NotFinite("validation loss", "after", r.step, r.val_loss);
}

std::optional<double> BitsPerByte(const EvalRecord& record) {
  if (record.bytes.value_or(0) == 0) return std::nullopt;
  return record.val_loss * double(record.tokens) / double(*record.bytes) / std::numbers::ln2;
}

std::string StartLines(const StartRecord& r) {
  std::string lines = fmt::format(
      "{} parameters, {} on {} rank{} ({}), {} tokens per step, {} tokens to train on, {} to validate; {} "
      "nodes, {} local, arena {:.1f} MiB",
      CountText(r.parameters), ToString(r.mesh), r.ranks, r.ranks == 1 ? "" : "s", r.device,
      CountText(r.tokens_per_step), r.train_tokens ? CountText(r.train_tokens) : "random", CountText(r.val_tokens),
      r.global_nodes, r.local_nodes, double(r.arena_bytes) / (1 << 20));
  if (r.data_bytes > 0) lines += fmt::format(", data {}", BytesText(size_t(r.data_bytes)));
  if (!r.resumed_from.empty()) lines += "\nresumed: " + r.resumed_from;
  if (!r.kernels.empty()) lines += "\nkernels: " + r.kernels;
  if (!r.init.empty()) lines += "\n" + r.init;
  return lines;
}

namespace {

// A part of a line. If the line is too long, the parts of highest rank are dropped first; rank 0 is never dropped.
struct Part {
  int rank;
  std::string text;
};

std::string Fitted(std::vector<Part> parts, size_t width) {
  auto joined = [&] {
    std::string line;
    for (const Part& part : parts) line += (line.empty() ? "" : " | ") + part.text;
    return line;
  };
  std::string line = joined();
  while (line.size() > width) {
    auto least =
        std::max_element(parts.begin(), parts.end(), [](const Part& a, const Part& b) { return a.rank < b.rank; });
    if (least->rank == 0) break;
    parts.erase(least);
    line = joined();
  }
  return line;
}

}  // namespace

std::string StepLine(const StepRecord& r, int64_t steps, std::optional<double> seconds_left, size_t width) {
  std::vector<Part> parts = {{0, StepText(r.step, steps)},
                             {9, fmt::format("{:>3}%", 100 * r.step / steps)},
                             {0, fmt::format("loss {:.4f}", r.loss)},
                             {5, fmt::format("norm {:.3f}", std::abs(r.grad_norm))},
                             {7, fmt::format("lr {:.2e}", r.lr)},
                             {6, fmt::format("{:.1f} ms", r.ms)},
                             {2, CountText(int64_t(r.tokens_per_s)) + " tok/s"}};
  if (r.loss_scale) parts.push_back({4, fmt::format("scale {:g}, {} skipped", *r.loss_scale, r.skipped)});
  if (r.mfu) parts.push_back({3, fmt::format("mfu {:.1f}%", 100 * *r.mfu)});
  if (r.peak_bytes) parts.push_back({8, BytesText(size_t(*r.peak_bytes))});
  if (seconds_left) parts.push_back({1, DurationText(*seconds_left) + " left"});
  return Fitted(std::move(parts), width);
}

std::string ProgressText(const ProgressRecord& r) {
  double left = r.seconds * double(r.all - r.done) / double(r.done);
  return fmt::format("evaluating {}% | {} left", 100 * r.done / r.all, DurationText(left));
}

// The text may have several lines; each of them is indented.
std::string SampleLines(const SampleRecord& r, int64_t steps) {
  std::string lines = StepText(r.step, steps) + " | the model writes:\n  ";
  for (char ch : r.text.substr(0, r.text.find_last_not_of('\n') + 1)) {
    lines += ch;
    if (ch == '\n') lines += "  ";
  }
  return lines;
}

std::string ProgressLine(const ProgressRecord& r, int64_t steps) {
  return fmt::format("{} | {}", StepText(r.step, steps), ProgressText(r));
}

std::string EvalLine(const EvalRecord& r, int64_t steps) {
  std::string line = fmt::format("{} | validation loss {:.4f} nats per token", StepText(r.step, steps), r.val_loss);
  if (std::optional<double> bits = BitsPerByte(r)) line += fmt::format(", {:.4f} bits per byte", *bits);
  return line + fmt::format(" | {} tokens in {}", CountText(r.tokens), DurationText(r.ms / 1000));
}

std::string EndLine(const EndRecord& r, int64_t start_step) {
  int64_t steps = r.step - start_step;
  std::string line = fmt::format("done: {} step{} in {}", steps, steps == 1 ? "" : "s", DurationText(r.seconds));
  if (start_step > 0) line += fmt::format(", {} in all", r.step);
  if (r.loss) line += fmt::format(", loss {:.4f}", *r.loss);
  if (r.val_loss) line += fmt::format(", validation loss {:.4f}", *r.val_loss);
  return line;
}

std::string StopLine(const StopRecord& r) {
  return fmt::format("stopped after step {} by {}; {}", r.step, r.reason, r.advice);
}

std::string SaveLine(const SaveRecord& r) { return fmt::format("checkpoint: {}", r.folder); }

std::string ProfileLines(const ProfileRecord& r) {
  std::string steps = fmt::format("{} {}", r.first_step == r.step ? "step" : "steps", r.first_step);
  if (r.first_step != r.step) steps += fmt::format(" to {}", r.step);
  std::string lines = fmt::format("profile: {} ({}); ui.perfetto.dev opens it\n", r.path, steps);
  lines +=
      fmt::format("  a step of {:.3f} ms: kernels {:.1f}%, collectives {:.1f}% (waiting {:.1f}%), neither {:.1f}%\n",
                  r.step_ms, 100 * r.kernels, 100 * r.collectives, 100 * r.waiting, 100 * r.neither);
  if (r.hidden > 0) lines += fmt::format("  collectives of {:.1f}% more are hidden\n", 100 * r.hidden);
  if (!r.note.empty()) lines += fmt::format("  {}\n", r.note);
  lines += r.table;
  return lines.substr(0, lines.find_last_not_of('\n') + 1);
}

std::string DurationText(double seconds) {
  if (seconds < 10) return fmt::format("{:.1f}s", seconds);
  auto whole = int64_t(std::llround(seconds));
  if (whole < 60) return fmt::format("{}s", whole);
  if (whole < 3600) return fmt::format("{}m{:02}s", whole / 60, whole % 60);
  return fmt::format("{}h{:02}m", whole / 3600, whole / 60 % 60);
}

std::string CountText(int64_t count) {
  double value = double(count);
  if (count < 10000) return fmt::format("{}", count);
  for (const char* unit : {"K", "M", "B"}) {
    value /= 1000;
    if (value < 999.95) return fmt::format("{:.1f}{}", value, unit);
  }
  return fmt::format("{:.1f}T", value / 1000);
}

void StepMean::Add(const StepRecord& step) {
  last_ = step;
  steps_++;
  loss_ += step.loss;
  ms_ += step.ms;
  tokens_ += step.tokens_per_s * step.ms;
  mfu_ += step.mfu.value_or(0) * step.ms;
  if (!std::isfinite(step.grad_norm)) return;  // of a skipped update
  norm_ += step.grad_norm;
  norms_++;
}

StepRecord StepMean::Take() {
  StepRecord mean = last_;
  mean.loss = loss_ / double(steps_);
  mean.ms = ms_ / double(steps_);
  if (norms_ > 0) mean.grad_norm = norm_ / double(norms_);
  if (ms_ > 0) mean.tokens_per_s = tokens_ / ms_;
  if (ms_ > 0 && mean.mfu) mean.mfu = mfu_ / ms_;
  *this = StepMean();
  return mean;
}

bool EvalProgress::IsDue(const ProgressRecord& record) {
  if (record.seconds < last_) next_ = kPause;  // another evaluation has begun
  last_ = record.seconds;
  if (record.seconds < next_ || record.done == record.all) return false;
  next_ = record.seconds + kPause;
  return true;
}

void Progress::Add(double ms) {
  constexpr size_t kWindow = 15;
  if (latest_ms_.size() == kWindow) latest_ms_.erase(latest_ms_.begin());
  latest_ms_.push_back(ms);
  done_++;
}

std::optional<double> Progress::SecondsLeft() const {
  if (latest_ms_.empty()) return std::nullopt;
  std::vector<double> sorted = latest_ms_;
  std::nth_element(sorted.begin(), sorted.begin() + long(sorted.size() / 2), sorted.end());
  return sorted[sorted.size() / 2] / 1000 * double(std::max<int64_t>(steps_ - done_, 0));
}

}  // namespace weft
