// Agreement: all ranks of a run must have read the same config and the same tokens, or they train on a mixture without
// a word. Ranks compare hashes; only when these differ do they exchange what an error needs.
#pragma once
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "parallel/train/data.h"

namespace weft {

// The bytes of all ranks, in order; called by all ranks alike. Bootstrap::AllGather is one.
using Gather = std::function<std::vector<std::string>(std::string_view bytes)>;

// The first rank that differs from rank 0, and in what: the same answer on all ranks. Keys that concern one rank alone
// (Field::per_rank) may differ, and so may the paths of the data.
absl::Status CheckSameRun(const Config& config, const Dataset& data, const std::string& host, const Gather& gather);

}  // namespace weft
