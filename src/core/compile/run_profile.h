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
  // Nanoseconds of SteadyNanoseconds.
  struct Span {
    int64_t begin = 0, end = 0;
    int64_t length() const { return end - begin; }
  };
  struct ProgramRun {
    const Executable* executable;
    std::vector<Span> batches;   // of executable->batches()
    std::optional<Span> copies;  // of all of its copies
  };
  struct Step {
    Span span;
    std::vector<ProgramRun> runs;
  };

  // Of at most `steps` steps, each of which runs every program as often as `programs` says. Programs and device outlive
  // the profile. Memory for all of it is taken here.
  RunProfile(DeviceRuntime& device, const std::vector<std::pair<const Executable*, int>>& programs, int64_t steps);

  void BeginStep();
  // Runs the program, timed call by call.
  void Run(Executable& executable);
  void EndStep();
  // The steps that have ended. Waits for the device.
  std::vector<Step> Read();

 private:
  std::unique_ptr<Timeline> timeline_;
  // The programs that ran, in order; null ends a step.
  std::vector<const Executable*> ran_;
};

}  // namespace weft
