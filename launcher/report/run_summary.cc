#include "launcher/report/run_summary.h"

#include <algorithm>
#include <cmath>

#include "absl/time/time.h"
#include "fmt/format.h"
#include "fmt/ranges.h"
#include "weft/core/base/memory.h"

namespace weft {
namespace {

// Returns how the run ended, as far as its log shows.
std::string StateText(const RunHistory& run) {
  if (run.end) return fmt::format("done: {} steps", run.end->step);
  if (run.stop)
    return fmt::format("stopped by {} after step {} of {}", run.stop->reason.empty() ? "a signal" : run.stop->reason,
                       run.stop->step, run.start.steps);
  if (!run.last) return "no step is finished";
  bool lost = !std::isfinite(run.last->loss) || (!run.last->loss_scale && !std::isfinite(run.last->grad_norm));
  if (lost) return fmt::format("failed: the loss or the gradient norm of step {} is not finite", run.last->step);
  return fmt::format("no end is logged: killed, failed or running after step {} of {}", run.last->step,
                     run.start.steps);
}

std::string EvalText(const EvalRecord& r) {
  std::string text = fmt::format("{:.4f} nats per token", r.val_loss);
  if (std::optional<double> bits = BitsPerByte(r)) text += fmt::format(", {:.4f} bits per byte", *bits);
  return text + fmt::format(", after step {}", r.step);
}

// Returns the text of a count, which may be too large for an integer if the log is wrong.
std::string Rounded(double count) { return CountText(std::llround(std::min(count, 9e18))); }

std::string TokensText(const RunHistory& run) {
  const StartRecord& s = run.start;
  return fmt::format("{} in steps of {}, from {}; {} to validate", Rounded(run.tokens), CountText(s.tokens_per_step),
                     s.train_tokens ? CountText(s.train_tokens) : "random ones", CountText(s.val_tokens));
}

std::string TimeText(int64_t unix_time) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S UTC", absl::FromUnixSeconds(unix_time), absl::UTCTimeZone());
}

// Returns the seconds from the begin of rank 0 to the end of its first step, and what they were spent on.
std::string StartupText(const StartupRecord& r) {
  std::string parts;
  double last = 0;
  for (size_t phase = 0; phase < r.seconds.size(); phase++) {
    if (!r.seconds[phase]) continue;
    parts +=
        fmt::format("{}{} {:.2f}s", parts.empty() ? "" : ", ", kStartPhases[phase].spent, *r.seconds[phase] - last);
    last = *r.seconds[phase];
  }
  return fmt::format("{:.2f}s to the end of the first step: {}", last, parts);
}

std::string MeshText(const StartRecord& s) {
  return fmt::format("{} on {} rank{}", ToString(s.mesh), s.ranks, s.ranks == 1 ? "" : "s");
}

}  // namespace

std::vector<SummaryRow> SummaryOf(const RunHistory& run) {
  std::vector<SummaryRow> rows;
  auto add = [&](bool known, const char* name, auto value) {
    if (known) rows.push_back({name, value()});
  };
  const StartRecord& s = run.start;
  add(true, "state", [&] { return StateText(run); });
  add(true, "parameters", [&] { return fmt::format("{} ({})", CountText(s.parameters), s.parameters); });
  add(true, "mesh", [&] { return MeshText(s); });
  add(!s.device.empty(), "device", [&] { return s.device; });
  add(!s.kernels.empty(), "kernels", [&] { return s.kernels; });
  add(true, "tokens", [&] { return TokensText(run); });
  add(run.last.has_value(), "training loss",
      [&] { return fmt::format("{:.4f} nats per token, in step {}", run.last->loss, run.last->step); });
  add(run.best_eval.has_value(), "best validation loss", [&] { return EvalText(*run.best_eval); });
  add(run.last_eval.has_value(), "last validation loss", [&] { return EvalText(*run.last_eval); });
  add(run.step_seconds > 0, "tokens per second",
      [&] { return fmt::format("{} on average", Rounded(run.tokens / run.step_seconds)); });
  add(run.mfu.Whole().count > 0, "model FLOPs utilization",
      [&] { return fmt::format("{:.1f}% on average", 100 * run.mfu.Whole().mean()); });
  add(run.peak_bytes.has_value(), "peak memory of a rank", [&] { return BytesText(size_t(*run.peak_bytes)); });
  add(run.last && run.last->loss_scale, "loss scale",
      [&] { return fmt::format("{:g} at the end; {} updates skipped", *run.last->loss_scale, run.last->skipped); });
  add(run.startup.has_value(), "start", [&] { return StartupText(*run.startup); });
  add(run.saved.has_value(), "latest checkpoint", [&] { return run.saved->folder; });
  add(true, "duration", [&] { return DurationText(run.seconds); });
  add(!run.resumed.empty(), "resumed", [&] { return fmt::format("after step {}", fmt::join(run.resumed, ", ")); });
  add(run.cut_lines > 0, "lines cut short", [&] { return fmt::format("{}, left out", run.cut_lines); });
  add(s.unix_time > 0, "latest start", [&] { return TimeText(s.unix_time); });
  add(!s.version.empty(), "Weft", [&] { return s.version; });
  return rows;
}

}  // namespace weft
