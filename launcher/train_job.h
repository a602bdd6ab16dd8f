// The inputs of weft train, loaded from its arguments and files before ranks exchange anything. A library of its own,
// so that tests can check the errors without the program.
#pragma once
#include "absl/status/statusor.h"
#include "launcher/command.h"
#include "weft/train/data/data.h"

namespace weft {

struct TrainJob {
  Config config;
  Dataset data;
};
absl::StatusOr<TrainJob> LoadTrainJob(const Words& words, int world_size);

// Checks that logs and the profile can be written, and creates their folders. Call it on the rank that writes them.
absl::Status CheckOutputs(const Config& config);

}  // namespace weft
