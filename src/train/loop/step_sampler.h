// StepSampler: samples a text from the model during training, for the user. The trainer decides when, and train/infer
// implements how.
#pragma once
#include <string>

#include "absl/status/statusor.h"
#include "weft/parallel/step/memory_need.h"

namespace weft {

class StepSampler {
 public:
  virtual ~StepSampler() = default;
  // Returns the memory that it allocates in addition to the run's State and arena.
  virtual MemoryNeed Need() const = 0;
  // Adds its slots to the State of the run, which must outlive it, and allocates. Must be called once.
  virtual void Bind(State& state) = 0;
  // Returns a text sampled with the current parameters. All ranks must call it; all get the same text. Returns an error
  // if a logit is not finite.
  virtual absl::StatusOr<std::string> Text() = 0;
};

}  // namespace weft
