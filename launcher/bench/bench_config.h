// BenchConfig: the config of a measurement: device, mesh and, for kinds step and rates, the model.
#pragma once
#include "launcher/bench/bench_words.h"

namespace weft {

// Returns the config of a kind, resolved for `ranks` ranks. For kinds step and rates it is the config of the file with
// the overrides of the command line, except that its data are random tokens, its weights are random, and nothing is
// saved. Adds `notes` for the user. Errors name the key or the file.
absl::StatusOr<Config> BenchConfig(const BenchWords& words, int ranks, std::vector<std::string>& notes);

}  // namespace weft
