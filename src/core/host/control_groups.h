// The control groups (cgroups) of this process, which limit its memory and its processor time.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

// Returns the folders of this process's group and of the groups above it, in this order, of cgroup version 1 or 2.
// `controller` is for example "memory". In a container the own folder may not exist, because its group is mounted as
// the root. `root` is the folder that contains /proc and /sys.
std::vector<std::string> ControlGroups(int version, std::string_view controller, const std::string& root = "");

// Returns how many cores may be busy all the time under the least CPU quota of these groups, rounded up, as with
// docker --cpus and limits of Kubernetes. A quota does not change the affinity mask. Returns nothing without a quota.
std::optional<int> CoreQuota(const std::string& root = "");

}  // namespace weft
