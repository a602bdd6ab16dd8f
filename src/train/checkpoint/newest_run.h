// Finds the run that a command uses when it is given no folder.
#pragma once
#include <string>

#include "weft/dist/group/consensus.h"

namespace weft {

// Returns the name of the run in the folder `runs` that saved a checkpoint last, or "" if there is none. With a `name`,
// considers only NAME, NAME-2, NAME-3, ... All ranks must call it; all get rank 0's result.
std::string NewestRun(const Ranks& ranks, const std::string& name = "");

}  // namespace weft
