// HostMemory: how much memory the processes of this host can still allocate, as Linux reports it.
#pragma once
#include <string>

#include "weft/core/base/memory.h"

namespace weft {

// Returns MemAvailable of /proc/meminfo, lowered by two kinds of limit:
// - the limit of this process's control group or of a group above it (cgroup version 1 or 2);
// - the system's commit limit, if vm.overcommit_memory is 2.
// File pages that a group could drop count as free. `root` is the folder that contains /proc and /sys.
Memory HostMemory(const std::string& root = "");

}  // namespace weft
