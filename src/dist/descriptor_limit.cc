#include "dist/descriptor_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <filesystem>
#include <iterator>

namespace weft {
namespace {

// Counting takes a descriptor itself: where there is none, all are in use.
int64_t OpenDescriptors(const rlimit& limit) {
  std::error_code error;
  std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? int64_t(limit.rlim_cur) : std::distance(open, std::filesystem::directory_iterator()) - 1;
}

}  // namespace

int64_t DescriptorsOfRank(int world_size) {
  constexpr int64_t kFiles = 16, kAtOnce = 64;  // ForAllRanks asks so many ranks at once
  int64_t others = world_size - 1;
  return 2 * others + 2 * std::min(others, kAtOnce) + kFiles;
}

absl::Status ReserveDescriptors(int64_t more, int world_size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();  // nothing is known to be wrong
  int64_t open = OpenDescriptors(limit);
  auto needed = rlim_t(open + more);
  if (limit.rlim_cur >= needed) return absl::OkStatus();
  rlimit raised{std::min(needed, limit.rlim_max), limit.rlim_max};
  if (raised.rlim_cur >= needed && setrlimit(RLIMIT_NOFILE, &raised) == 0) return absl::OkStatus();
  return absl::ResourceExhaustedError(fmt::format(
      "bootstrap: a job of {} ranks needs up to {} file descriptors in this process, and its limit is {} ({} are "
      "in use); set a higher one, for example with ulimit -n {}",
      world_size, needed, limit.rlim_max, open, needed));
}

}  // namespace weft
