#include "weft/core/base/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

#include "weft/core/host/control_groups.h"

namespace weft {
namespace {

namespace fs = std::filesystem;

constexpr size_t kKibi = 1024;

// Returns the number after `key` in a file of lines "key number ...", or 0 if the key is missing.
size_t NumberOf(const std::string& path, const std::string& key) {
  std::ifstream file(path);
  for (std::string word; file >> word;) {
    size_t number = 0;
    if (word == key && file >> number) return number;
    file.ignore(1 << 10, '\n');
  }
  return 0;
}

// Reads a file of one number. Returns false if the file is missing or contains "max".
bool Read(const fs::path& path, size_t& number) { return bool(std::ifstream(path) >> number); }

// Control groups of one version: the files with a group's limit and use, and the key in memory.stat for the group's
// file pages that it could drop.
struct Version {
  int number;
  const char *limit, *used, *droppable;
};
constexpr Version kVersions[] = {{1, "memory.limit_in_bytes", "memory.usage_in_bytes", "total_inactive_file"},
                                 {2, "memory.max", "memory.current", "inactive_file"}};

// Lowers `memory` to what the group of `folder` may still take. Returns false if there is no such group.
bool Narrow(Memory& memory, const fs::path& folder, const Version& version) {
  size_t limit = 0, used = 0;
  if (!Read(folder / version.used, used)) return false;
  if (!Read(folder / version.limit, limit)) return true;
  used -= std::min(used, NumberOf(folder / "memory.stat", version.droppable));
  memory.total = std::min(memory.total, limit);
  memory.free = std::min(memory.free, limit - std::min(limit, used));
  return true;
}

// Applies the limits of this process's group and of the groups above it. In version 1 a group bounds the groups below
// it only if use_hierarchy is set.
void NarrowToGroups(Memory& memory, const std::string& root, const Version& version) {
  bool own = true;
  for (const fs::path folder : ControlGroups(version.number, "memory", root)) {
    size_t bounds_others = 1;
    Read(folder / "memory.use_hierarchy", bounds_others);
    if ((own || bounds_others) && Narrow(memory, folder, version)) own = false;
  }
}

// With strict accounting the system refuses allocations beyond the commit limit even if memory is free.
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
  for (const Version& version : kVersions) NarrowToGroups(memory, root, version);
  return memory;
}

}  // namespace weft
