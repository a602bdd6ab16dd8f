// Agreement: checks that all ranks of a run have read the same config and the same tokens. Otherwise they would
// silently train on a mixture. Ranks compare hashes and exchange details only if the hashes differ.
#pragma once
#include <string>

#include "weft/dist/group/consensus.h"
#include "weft/train/data/data.h"

namespace weft {

// Returns an error that names the first rank that differs from rank 0, and the difference. All ranks get the same
// result. Keys that concern only one rank (Field::per_rank), among them the paths of the data, may differ.
absl::Status CheckSameRun(const Config& config, const Dataset& data, const Ranks& ranks);
// Checks a config without data, and other command-line arguments, given as lines "name: value". Returns errors as
// CheckSameRun does.
absl::Status CheckSameConfig(const Config& config, const std::string& lines, const Ranks& ranks);

}  // namespace weft
