// Where a run writes against what it reads and what else it writes: none of its files may destroy another.
#pragma once
#include <string>
#include <vector>

#include "weft/train/config/config.h"

namespace weft {

// By the paths as they lead through links now, and by how a file in the log's place begins.
std::vector<ConfigFault> CheckOutputPaths(const Config& config);

}  // namespace weft
