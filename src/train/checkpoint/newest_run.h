// The run that a command means when it is given no folder.
#pragma once
#include <string>

#include "weft/dist/group/consensus.h"

namespace weft {

// The name of the run in the folder runs that saved a checkpoint last; "" if no run did. With a name, only NAME,
// NAME-2, NAME-3, ... count. Called by all ranks alike; rank 0's view is everyone's.
std::string NewestRun(const Ranks& ranks, const std::string& name = "");

}  // namespace weft
