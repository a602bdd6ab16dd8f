#include "core/base/host_memory.h"

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace weft {
namespace {

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
bool Read(const std::string& path, size_t& number) { return bool(std::ifstream(path) >> number); }

// Narrows the memory to what the group of `folder` may still take.
void Narrow(Memory& memory, const std::string& folder) {
  size_t limit = 0, used = 0;
  if (!Read(folder + "/memory.max", limit) || !Read(folder + "/memory.current", used)) return;
  used -= std::min(used, NumberOf(folder + "/memory.stat", "inactive_file"));
  memory.total = std::min(memory.total, limit);
  memory.free = std::min(memory.free, limit - std::min(limit, used));
}

// "/user.slice/x": the group of this process, of version 2.
std::filesystem::path GroupOf(const std::string& root) {
  std::ifstream file(root + "/proc/self/cgroup");
  for (std::string line; std::getline(file, line);)
    if (line.starts_with("0::/")) return line.substr(3);
  return "/";
}

}  // namespace

Memory HostMemory(const std::string& root) {
  std::string meminfo = root + "/proc/meminfo";
  Memory memory{NumberOf(meminfo, "MemAvailable:") * kKibi, NumberOf(meminfo, "MemTotal:") * kKibi};
  for (std::filesystem::path group = GroupOf(root);; group = group.parent_path()) {
    Narrow(memory, root + "/sys/fs/cgroup" + group.string());
    if (group == group.parent_path()) return memory;
  }
}

}  // namespace weft
