// StepProfiler: times the steps that profile.steps names, and writes them as one trace of all ranks.
//
// It costs the other steps nothing: a step is timed call by call only between Begin and Finish.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "weft/core/host/notice.h"
#include "weft/dist/group/mesh.h"
#include "weft/parallel/step/runner.h"
#include "weft/train/config/config.h"
#include "weft/train/log/metrics.h"

namespace weft {

// kInvalidArgument, with the place of the key, where a run that resumes after `start_step` does not come to all steps
// of profile.steps.
absl::Status CheckProfiledSteps(const Config& config, int64_t start_step);

class StepProfiler {
 public:
  // All outlive the profiler; config.profile names steps. `runner` runs programs (executor compiled).
  StepProfiler(const Config& config, DeviceMesh& mesh, StepRunner& runner, DeviceKind device, Notices& notices)
      : config_(config), mesh_(mesh), runner_(runner), device_(device), notices_(notices) {}

  // Whether all steps up to `step` must be finished before the next one is issued: a profile begins or ends there.
  bool IsBorder(int64_t step) const { return step + 1 == steps().first || step == steps().last; }
  // Before `step` is issued; no step is in progress if a profile begins with it. Called by all ranks alike.
  void Begin(int64_t step);
  // Whether a profile is to be finished after `step`: it is the last one, or the run stops.
  bool IsDue(int64_t step, bool stops) const { return running_ && (stops || step == steps().last); }
  // Writes the trace of the steps up to `step`, which are finished: an older file goes aside first. Called by all ranks
  // alike. The record is rank 0's to write; the error, on rank 0, names the file and the system's reason.
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
