// HostMemory: what processes of this host can still allocate, by Linux's own account.
#pragma once
#include <string>

#include "weft/core/base/memory.h"

namespace weft {

// MemAvailable of /proc/meminfo, or less where a control group (version 1 or 2) of this process or one above it allows
// less, or where the system commits no more than it has (vm.overcommit_memory=2). Pages of files that a group could
// drop count as free. `root`: where /proc and /sys are.
Memory HostMemory(const std::string& root = "");

}  // namespace weft
