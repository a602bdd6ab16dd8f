// RunProfile: when each call of a step's programs began and ended, over several steps.
//
//   RunProfile profile(device, {{&accumulate, 3}, {&step, 1}}, 2);
//   profile.BeginStep();
//   profile.Run(accumulate);  // and so on, in any order
//   profile.EndStep();
//   for (const RunProfile::Step& step : profile.Read()) ...
#pragma once
#include <cstdint>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "weft/core/compile/executable.h"
#include "weft/core/runtime/timeline.h"

namespace weft {

class RunProfile {
 public:
  // Times in SteadyNanoseconds.
  struct Span {
    int64_t begin = 0, end = 0;
    int64_t length() const { return end - begin; }
  };
  struct ProgramRun {
    const Executable* executable;
    std::vector<Span> batches;   // one per executable->batches()
    std::optional<Span> copies;  // of all copies together
  };
  struct Step {
    Span span;
    std::vector<ProgramRun> runs;
  };

  // Profiles at most `steps` steps. Each step runs every program as often as `programs` says. Programs and device must
  // outlive the profile. All memory is allocated here.
  RunProfile(DeviceRuntime& device, const std::vector<std::pair<const Executable*, int>>& programs, int64_t steps);

  void BeginStep();
  // Runs the program and times each of its batches.
  void Run(Executable& executable);
  void EndStep();
  // Returns the steps that have ended. Waits for the device.
  std::vector<Step> Read();

 private:
  std::unique_ptr<Timeline> timeline_;
  // The programs that ran, in order. A null marks the end of a step.
  std::vector<const Executable*> ran_;
};

}  // namespace weft
