// HostMemory: what processes of this host can still allocate, by Linux's own account.
#pragma once
#include <string>

#include "core/base/memory.h"

namespace weft {

// MemAvailable of /proc/meminfo, or less where a control group (version 2) of this process or one above it allows less;
// pages of files that the group could drop count as free. `root`: where /proc and /sys are.
Memory HostMemory(const std::string& root = "");

}  // namespace weft
