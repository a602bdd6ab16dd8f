#include "weft/core/base/process_memory.h"

#include <fmt/format.h>
#include <sys/resource.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <new>

#include "weft/core/base/device_runtime.h"
#include "weft/core/host/host_name.h"

namespace weft {
namespace {

// Mapped bytes as the limits count them: RLIMIT_AS counts `all`, RLIMIT_DATA counts `data`.
struct Mapped {
  size_t all = 0, data = 0;
};
Mapped MappedNow(const std::string& root) {
  std::ifstream file(root + "/proc/self/statm");
  size_t all = 0, resident = 0, shared = 0, text = 0, library = 0, data = 0;
  if (!(file >> all >> resident >> shared >> text >> library >> data)) return {};
  auto page = size_t(::sysconf(_SC_PAGESIZE));
  return {all * page, data * page};
}

}  // namespace

ProcessMemory MemoryOfProcess(const std::string& root) {
  Mapped mapped = MappedNow(root);
  ProcessMemory least;
  auto narrow = [&](auto resource, const char* name, size_t used) {
    rlimit limit{};
    if (::getrlimit(resource, &limit) != 0 || limit.rlim_cur == RLIM_INFINITY) return;
    Memory memory{limit.rlim_cur - std::min<size_t>(used, limit.rlim_cur), limit.rlim_cur};
    if (least.limit.empty() || memory.free < least.memory.free) least = {name, memory};
  };
  narrow(RLIMIT_AS, "RLIMIT_AS (ulimit -v)", mapped.all);
  narrow(RLIMIT_DATA, "RLIMIT_DATA (ulimit -d)", mapped.data);
  return least;
}

std::string PlaceOf(const ProcessMemory& process) {
  if (process.limit.empty()) return "";
  return fmt::format("process {} of host {} under {}", ::getpid(), HostName(), process.limit);
}

Shortage HostShortage(size_t asked, std::string what) {
  DeviceRuntime& cpu = CpuRuntime();
  Shortage shortage{.where = PlaceOf(cpu), .asked = asked, .what = std::move(what), .memory = cpu.MemoryNow()};
  ProcessMemory process = MemoryOfProcess();
  bool tighter = shortage.memory.total == 0 || process.memory.free < shortage.memory.free;
  if (process.limit.empty() || !tighter) return shortage;
  shortage.where = PlaceOf(process);
  shortage.memory = process.memory;
  return shortage;
}

std::string LimitText() {
  ProcessMemory process = MemoryOfProcess();
  if (process.limit.empty()) return "";
  return fmt::format("; {} has {} free of {}", PlaceOf(process), BytesText(process.memory.free),
                     BytesText(process.memory.total));
}

std::string TextOf(const std::exception& exception) {
  if (dynamic_cast<const std::bad_alloc*>(&exception)) return OutOfMemory(HostShortage(0));
  std::string text = exception.what();
  return text.starts_with("out of memory") ? text : text + LimitText();
}

}  // namespace weft
