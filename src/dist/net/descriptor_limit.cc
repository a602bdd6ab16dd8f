#include "weft/dist/net/descriptor_limit.h"

#include <fmt/format.h>
#include <sys/resource.h>

#include <algorithm>
#include <bit>
#include <filesystem>
#include <iterator>

#include "weft/core/base/mesh_shape.h"

namespace weft {
namespace {

// Counting needs a descriptor itself. If none is free, all are in use.
int64_t OpenDescriptors(const rlimit& limit) {
  std::error_code error;
  std::filesystem::directory_iterator open("/proc/self/fd", error);
  return error ? int64_t(limit.rlim_cur) : std::distance(open, std::filesystem::directory_iterator()) - 1;
}

}  // namespace

constexpr int64_t kGuests = 4;  // unproven at once; others are accepted one after another

int64_t DescriptorsToMeet(int rank, int world_size) {
  constexpr int64_t kListeners = 2, kRankZero = 2;  // the connection to rank 0, and the socket for its secret
  return rank == 0 ? kListeners + world_size - 1 : kRankZero;
}

int64_t DescriptorsOfNetwork() {
  constexpr int64_t kListener = 1, kEvent = 1, kNeighbours = 2;
  return kListener + kEvent + kNeighbours + kGuests;
}

int64_t DescriptorsOfRank(int world_size) {
  constexpr int64_t kFiles = 16, kAtOnce = 64;  // ForAllRanks asks up to 64 ranks at once
  constexpr int64_t kWays = 4;                  // it asks and is asked, it probes and is probed
  // The world has a group, and so has each mesh axis of more than one rank. Each group needs two descriptors to wait
  // on.
  int64_t groups = 1 + std::min<int64_t>(kMaxAxes, std::bit_width(unsigned(world_size)) - 1);
  int64_t others = world_size - 1;
  int64_t pairs = 2 * others;  // once in the world group, and at most once in all axes together
  return pairs + 2 * groups + kWays * std::min(others, kAtOnce) + kFiles;
}

int64_t GuestsToKeep(int64_t own, int64_t most) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return most;
  int64_t beside = OpenDescriptors(limit) + own - kGuests;
  rlimit raised{std::max(limit.rlim_cur, std::min(rlim_t(beside + most), limit.rlim_max)), limit.rlim_max};
  if (raised.rlim_cur > limit.rlim_cur && setrlimit(RLIMIT_NOFILE, &raised) == 0) limit = raised;
  auto free = int64_t(std::min(limit.rlim_cur, rlim_t(beside + most))) - beside;
  return std::clamp(free, kGuests, most);
}

absl::Status ReserveDescriptors(int64_t more, int world_size) {
  rlimit limit{};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return absl::OkStatus();  // an unknown limit is not an error
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
