#include "weft/train/log/terminal_log.h"

#include "weft/core/host/message.h"
#include "weft/train/log/standard_output.h"

namespace weft {
namespace {

constexpr const char *kBold = "\x1b[1m", *kGreen = "\x1b[32m", *kYellow = "\x1b[33m", *kCyan = "\x1b[36m",
                     *kPlain = "\x1b[0m";

// The text is already printable, so these are its only escape sequences.
std::string Colored(const LogRecord& record, const std::string& text) {
  if (std::holds_alternative<EvalRecord>(record)) return kCyan + text + kPlain;
  if (std::holds_alternative<EndRecord>(record)) return kGreen + text + kPlain;
  if (std::holds_alternative<StopRecord>(record)) return kYellow + text + kPlain;
  size_t loss = text.find("loss "), end = std::min(text.find(" |", loss), text.size());
  if (!std::holds_alternative<StepRecord>(record) || loss == text.npos) return text;
  return text.substr(0, loss) + kBold + text.substr(loss, end - loss) + kPlain + text.substr(end);
}

}  // namespace

absl::Status TerminalLog::Write(const LogRecord& record) {
  std::string lines = std::visit([this](const auto& r) { return Lines(r); }, record);
  if (lines.empty()) return absl::OkStatus();
  return style_.color ? PrintBytes(Colored(record, Printable(lines)) + "\n") : Print(lines + "\n");
}

std::string TerminalLog::Lines(const StepRecord& r) {
  progress_.Add(r.ms);
  mean_.Add(r);
  bool shown = r.step == start_step_ + 1 || r.step == steps_ || (every_ > 0 && r.step % every_ == 0);
  return shown ? StepLine(mean_.Take(), steps_, progress_.SecondsLeft(), style_.width) : "";
}

}  // namespace weft
