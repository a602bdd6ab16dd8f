#include "weft/core/compile/run_profile.h"

namespace weft {

RunProfile::RunProfile(DeviceRuntime& device, const std::vector<std::pair<const Executable*, int>>& programs,
                       int64_t steps) {
  size_t points = 2, runs = 1;  // per step: its begin and its end
  for (const auto& [executable, times] : programs) {
    points += size_t(times) * executable->num_points();
    runs += size_t(times);
  }
  timeline_ = NewTimeline(device, size_t(steps) * points);
  ran_.reserve(size_t(steps) * runs);
}

void RunProfile::BeginStep() { timeline_->Mark(); }

void RunProfile::Run(Executable& executable) {
  executable.Run(*timeline_);
  ran_.push_back(&executable);
}

void RunProfile::EndStep() {
  timeline_->Mark();
  ran_.push_back(nullptr);
}

std::vector<RunProfile::Step> RunProfile::Read() {
  std::vector<int64_t> times = timeline_->Read();
  size_t at = 0;
  auto next_span = [&] {
    Span span{times[at], times[at + 1]};
    at += 2;
    return span;
  };
  std::vector<Step> steps;
  Step step;
  bool begun = false;
  for (const Executable* executable : ran_) {
    if (!std::exchange(begun, true)) step.span.begin = times[at++];
    if (!executable) {
      step.span.end = times[at++];
      steps.push_back(std::exchange(step, {}));
      begun = false;
      continue;
    }
    ProgramRun& run = step.runs.emplace_back(ProgramRun{executable, {}, {}});
    for (size_t i = 0; i < executable->batches().size(); i++) run.batches.push_back(next_span());
    if (executable->num_points() > 2 * executable->batches().size()) run.copies = next_span();
  }
  return steps;
}

}  // namespace weft
