#include "weft/core/base/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <vector>

#include "absl/strings/str_split.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKibi = 1024;

// The number behind `key` in a file of lines "key number ..."; 0 where there is none.
size_t NumberOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    size_t number = 0;
    if (word == key && file >> number) return number;
    file.ignore(1 << 10, '\n');
  }
  return 0;
}

// A file of one number. False where it is not there, or says "max".
bool Read(const fs::path& path, size_t& number) { return bool(std::ifstream(path) >> number); }

// Control groups of one version: where their folders are, and the files with a group's limit, its use and, in
// memory.stat, the pages of files in it that it could drop.
struct Version {
  const char *folder, *limit, *used, *droppable;
};
constexpr Version kVersion1{"/sys/fs/cgroup/memory", "memory.limit_in_bytes", "memory.usage_in_bytes",
                            "total_inactive_file"},
    kVersion2{"/sys/fs/cgroup", "memory.max", "memory.current", "inactive_file"};

// Narrows the memory to what the group of `folder` may still take. False: there is no such group.
bool Narrow(Memory& memory, const fs::path& folder, const Version& version) {
  size_t limit = 0, used = 0;
  if (!Read(folder / version.used, used)) return false;
  if (!Read(folder / version.limit, limit)) return true;
  used -= std::min(used, NumberOf(folder / "memory.stat", version.droppable));
  memory.total = std::min(memory.total, limit);
  memory.free = std::min(memory.free, limit - std::min(limit, used));
  return true;
}

// Whether a line of /proc/self/cgroup, "number:controllers:path", is that of the version's memory controller.
bool IsOf(const std::string& line, const Version& version) {
  if (version.folder == kVersion2.folder) return line.starts_with("0::");
  size_t begin = line.find(':') + 1;
  std::vector<std::string> controllers = absl::StrSplit(line.substr(begin, line.find(':', begin) - begin), ',');
  return std::find(controllers.begin(), controllers.end(), "memory") != controllers.end();
}

// "/user.slice/x": the group of this process.
fs::path GroupOf(const std::string& root, const Version& version) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (IsOf(line, version)) return line.substr(line.find(':', line.find(':') + 1) + 1);
  return "/";
}

// The groups of this process and above it. A container may see its own group as the root, and not its own path. In
// version 1 a group bounds those below it only where use_hierarchy is set.
void NarrowToGroups(Memory& memory, const std::string& root, const Version& version) {
  bool own = true;
  for (fs::path group = GroupOf(root, version);; group = group.parent_path()) {
    fs::path folder = root + version.folder + group.string();
    size_t bounds_others = 1;
    Read(folder / "memory.use_hierarchy", bounds_others);
    if ((own || bounds_others) && Narrow(memory, folder, version)) own = false;
    if (group == group.parent_path()) return;
  }
}

// Under strict accounting the system refuses what goes beyond a limit, though memory may be free.
void NarrowToCommitLimit(Memory& memory, const std::string& root) {
  constexpr size_t kStrict = 2;
  size_t mode = 0;
  if (!Read(root + "/proc/sys/vm/overcommit_memory", mode) || mode != kStrict) return;
  std::string meminfo = root + "/proc/meminfo";
  size_t limit = NumberOf(meminfo, "CommitLimit:") * kKibi, used = NumberOf(meminfo, "Committed_AS:") * kKibi;
  memory.free = std::min(memory.free, limit - std::min(limit, used));
}

}  // namespace

Memory HostMemory(const std::string& root) {
  std::string meminfo = root + "/proc/meminfo";
  Memory memory{NumberOf(meminfo, "MemAvailable:") * kKibi, NumberOf(meminfo, "MemTotal:") * kKibi};
  NarrowToCommitLimit(memory, root);
  for (const Version& version : {kVersion1, kVersion2}) NarrowToGroups(memory, root, version);
  return memory;
}

}  // namespace weft
