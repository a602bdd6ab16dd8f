// A folder that all ranks are to write to: made by rank 0, and looked at by the others before a run counts on it. On
// several hosts a path may be another folder on each.
#pragma once
#include <string>

#include "absl/status/status.h"
#include "weft/dist/group/consensus.h"

namespace weft {

// Makes `dir` and those above it. Called by all ranks alike, with one answer on all: the first rank whose `dir` is not
// that of rank 0, and its host. Leaves no file behind, and where it fails no new folder.
absl::Status MakeSharedFolder(const std::string& dir, const Ranks& ranks);

}  // namespace weft
