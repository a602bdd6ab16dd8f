// What weft train makes of its command line and files before ranks talk to each other. Apart from the program, so that
// a test can refuse what it refuses.
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

// That the log can be written, on the rank that writes it.
absl::Status CheckOutputs(const Config& config);

}  // namespace weft
