// The cores on which this process may run.
#pragma once
#include <optional>
#include <span>
#include <string>
#include <string_view>

namespace weft {

// A bit per core: core c is bit c % 8 of byte c / 8. Ranks send it to each other.
using CoreSet = std::string;

// Returns the cores of this thread's affinity mask, which containers, launchers that bind ranks, and taskset narrow.
// Returns all cores of the host if the kernel does not tell.
CoreSet AvailableCoreSet();
// Returns their number, at least 1.
int AvailableCores();

// Returns how many of the cores `mine` one rank may keep busy if those of `host` are the sets of all ranks of the host,
// including this one. Ranks share a core equally if their sets contain it. So ranks that are bound to cores of their
// own keep them all, and ranks that may use the same cores divide them. If the quota of all these ranks together
// (CoreQuota) is less than the cores of their sets, each share is less in the same ratio. Returns at least 1.
int ShareOfCores(std::string_view mine, std::span<const CoreSet> host, std::optional<int> quota = std::nullopt);

}  // namespace weft
