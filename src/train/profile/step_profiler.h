// StepProfiler: times the steps in profile.steps and writes one trace of all ranks.
//
// Other steps cost nothing more, because steps are timed call by call only between Begin and Finish.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/runner.h"
#include "weft/train/config/config.h"
#include "weft/train/log/metrics.h"

namespace weft {

// Returns kInvalidArgument, with the position of the key, if a run that resumes after `start_step` does not execute all
// steps of profile.steps.
absl::Status CheckProfiledSteps(const Config& config, int64_t start_step);

class StepProfiler {
 public:
  // All arguments must outlive the profiler. Requires config.profile.steps and a `runner` that runs programs (executor
  // compiled).
  StepProfiler(const Config& config, DeviceMesh& mesh, StepRunner& runner, DeviceKind device, Notices& notices)
      : config_(config), mesh_(mesh), runner_(runner), device_(device), notices_(notices) {}

  // Whether all steps up to `step` must finish before the next one is issued, because a profile begins or ends there.
  bool IsBorder(int64_t step) const { return step + 1 == steps().first || step == steps().last; }
  bool BeginsWith(int64_t step) const { return step == steps().first; }
  // Call before the first step of the profile is issued. No step and no save may be in progress. All ranks must call
  // it.
  void Begin();
  // Whether to finish a profile after `step`, because it is the last profiled step or the run stops.
  bool IsDue(int64_t step, bool stops) const { return running_ && (stops || step == steps().last); }
  // Writes the trace of the steps up to `step`, which must be finished, as must a save. First renames an older file.
  // All ranks must call it. Only rank 0 should log the returned record. Errors occur on rank 0; they name the file and
  // the system's reason.
  absl::StatusOr<ProfileRecord> Finish(int64_t step);

 private:
  const StepRange& steps() const { return config_.profile.steps; }
  std::string NameOfRank() const;
  absl::Status WriteTrace(const std::string& mine, int64_t last_step);

  const Config& config_;
  DeviceMesh& mesh_;
  StepRunner& runner_;
  DeviceKind device_;
  Notices& notices_;
  bool running_ = false;
  int64_t clock_offset_ = 0;
};

}  // namespace weft
