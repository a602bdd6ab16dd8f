// StepSampler: a text that the model writes while it is trained, for people. The trainer knows when; infer knows how.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "weft/parallel/step/memory_need.h"

namespace weft {

class StepSampler {
 public:
  virtual ~StepSampler() = default;
  // What it allocates besides the run's own state and arena.
  virtual MemoryNeed Need() const = 0;
  // Adds its slots to the state of the run, which outlives it, and allocates. Once.
  virtual void Bind(State& state) = 0;
  // A text by the parameters as they are now. Called by all ranks alike, and the same on all. Fails where a logit is
  // not finite.
  virtual absl::StatusOr<std::string> Text() = 0;
};

}  // namespace weft
