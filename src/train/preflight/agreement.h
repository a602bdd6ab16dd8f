// Agreement: all ranks of a run must have read the same config and the same tokens, or they train on a mixture without
// a word. Ranks compare hashes; only when these differ do they exchange what an error needs.
#pragma once
#include <string>

#include "weft/dist/group/consensus.h"
#include "weft/train/data/data.h"

namespace weft {

// The first rank that differs from rank 0, and in what: the same answer on all ranks. Keys that concern one rank alone
// (Field::per_rank) may differ, and so may the paths of the data.
absl::Status CheckSameRun(const Config& config, const Dataset& data, const Ranks& ranks);
// The same of a config without data, and of what else the command line says: lines "name: value".
absl::Status CheckSameConfig(const Config& config, const std::string& lines, const Ranks& ranks);

}  // namespace weft
