// Creates a folder for all ranks. Rank 0 creates it, and the other ranks check that they see the same one. On several
// hosts a path may lead to a different folder on each.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "weft/dist/group/consensus.h"

namespace weft {

// Creates `dir` and its missing parents. All ranks must call it; all get the same result. The error names the first
// rank that does not see rank 0's `dir`, and its host. Leaves no file, and on an error no new folder.
absl::Status MakeSharedFolder(const std::string& dir, const Ranks& ranks);

}  // namespace weft
