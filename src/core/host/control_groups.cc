#include "weft/core/host/control_groups.h"

#include <algorithm>
#include <climits>
#include <cmath>
#include <filesystem>
#include <fstream>

#include "absl/strings/str_split.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

// Whether a line of /proc/self/cgroup, "number:controllers:path", is for the controller.
bool IsOf(const std::string& line, int version, std::string_view controller) {
  if (version == 2) return line.starts_with("0::");
  size_t begin = line.find(':') + 1;
  std::vector<std::string> controllers = absl::StrSplit(line.substr(begin, line.find(':', begin) - begin), ',');
  return std::find(controllers.begin(), controllers.end(), controller) != controllers.end();
}

// Returns the group of this process, for example "/user.slice/x".
fs::path GroupOf(int version, std::string_view controller, const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (IsOf(line, version, controller)) return line.substr(line.find(':', line.find(':') + 1) + 1);
  return "/";
}

// Lowers `cores` to a quota per period, both in microseconds. "max" and -1 are no quota.
void Lower(double& cores, std::istream& quota_text, std::istream& period_text) {
  double quota = 0, period = 0;
  if (quota_text >> quota && period_text >> period && quota > 0 && period > 0) cores = std::min(cores, quota / period);
}

}  // namespace

std::vector<std::string> ControlGroups(int version, std::string_view controller, const std::string& root) {
  std::string mount = root + "/sys/fs/cgroup";
  if (version == 1) mount += '/' + std::string(controller);
  std::vector<std::string> folders;
  for (fs::path group = GroupOf(version, controller, root);; group = group.parent_path()) {
    folders.push_back(mount + group.string());
    if (group == group.parent_path()) return folders;
  }
}

std::optional<int> CoreQuota(const std::string& root) {
  double cores = INT_MAX;
  for (const std::string& group : ControlGroups(1, "cpu", root)) {
    std::ifstream quota(group + "/cpu.cfs_quota_us"), period(group + "/cpu.cfs_period_us");
    Lower(cores, quota, period);
  }
  for (const std::string& group : ControlGroups(2, "cpu", root)) {
    std::ifstream both(group + "/cpu.max");
    Lower(cores, both, both);
  }
  if (cores >= INT_MAX) return std::nullopt;
  return int(std::ceil(cores));
}

}  // namespace weft
