// TerminalLog: a run's text lines on stdout.
#pragma once
#include "weft/train/log/log_sink.h"
#include "weft/train/log/terminal_style.h"

namespace weft {

class TerminalLog final : public LogSink {
 public:
  // For a run of `steps` steps that continues after start_step. Shows the first step, the last, and every multiple of
  // `every`, with means over the steps since the last line shown.
  TerminalLog(int64_t steps, int64_t every, int64_t start_step, TerminalStyle style)
      : steps_(steps), every_(every), start_step_(start_step), style_(style), progress_(steps - start_step) {}
  absl::Status Write(const LogRecord& record) override;

 private:
  // Return "" if the record is not shown.
  std::string Lines(const StartRecord& r) const { return StartLines(r); }
  std::string Lines(const StepRecord& r);
  std::string Lines(const EvalRecord& r) const { return EvalLine(r, steps_); }
  std::string Lines(const EndRecord& r) const { return EndLine(r, start_step_); }
  std::string Lines(const StopRecord& r) const { return StopLine(r); }
  std::string Lines(const SaveRecord& r) const { return SaveLine(r); }
  std::string Lines(const ProfileRecord& r) const { return ProfileLines(r); }
  std::string Lines(const SampleRecord& r) const { return SampleLines(r, steps_); }
  std::string Lines(const NoteRecord&) const { return ""; }     // already on stderr
  std::string Lines(const StartupRecord&) const { return ""; }  // for reports
  std::string Lines(const ProgressRecord& r) { return eval_.IsDue(r) ? ProgressLine(r, steps_) : ""; }

  int64_t steps_, every_, start_step_;
  TerminalStyle style_;
  Progress progress_;
  StepMean mean_;
  EvalProgress eval_;
};

}  // namespace weft
