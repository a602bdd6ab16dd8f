#include "weft/train/log/terminal_log.h"

#include "weft/train/log/standard_output.h"

namespace weft {

absl::Status TerminalLog::Write(const LogRecord& record) {
  std::string lines = std::visit([this](const auto& r) { return Lines(r); }, record);
  return lines.empty() ? absl::OkStatus() : Print(lines + "\n");
}

std::string TerminalLog::Lines(const StepRecord& r) {
  progress_.Add(r.ms);
  bool shown = r.step == start_step_ + 1 || r.step == steps_ || (every_ > 0 && r.step % every_ == 0);
  return shown ? StepLine(r, steps_, progress_.SecondsLeft()) : "";
}

}  // namespace weft
