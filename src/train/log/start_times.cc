#include "weft/train/log/start_times.h"

#include <unistd.h>

#include <algorithm>
#include <ctime>
#include <sstream>
#include <string>

#include "weft/core/base/error.h"
#include "weft/core/host/small_file.h"

namespace weft {
namespace {

// The clock in which the system notes when a process began. Unlike CLOCK_MONOTONIC it counts the time of a suspended
// host.
double SecondsSinceBoot() {
  timespec now{};
  clock_gettime(CLOCK_BOOTTIME, &now);
  return double(now.tv_sec) + double(now.tv_nsec) / 1e9;
}

// Returns the present if the system does not tell when this process began, as in a sandbox without /proc.
double ProcessBegin() {
  double now = SecondsSinceBoot();
  std::optional<int64_t> ticks = StartTicksIn(SmallFileText("/proc/self/stat"));
  auto per_second = double(sysconf(_SC_CLK_TCK));
  return ticks && per_second > 0 ? std::min(now, double(*ticks) / per_second) : now;
}

}  // namespace

StartTimes::StartTimes() : begin_(ProcessBegin()) {}

void StartTimes::Note(StartPhase phase) {
  auto known = [](const std::optional<double>& seconds) { return seconds.has_value(); };
  WEFT_CHECK(std::none_of(seconds_.begin() + std::ptrdiff_t(phase), seconds_.end(), known),
             std::string("a phase of the start ends after a later one: ") + kStartPhases[size_t(phase)].name);
  seconds_[size_t(phase)] = SecondsSinceBoot() - begin_;
}

std::optional<int64_t> StartTicksIn(std::string_view stat) {
  size_t name_end = stat.rfind(')');  // the name of the program may contain spaces and parentheses
  if (name_end == stat.npos) return std::nullopt;
  std::istringstream fields{std::string(stat.substr(name_end + 1))};
  std::string other;
  for (int field = 3; field < 22; field++) fields >> other;  // numbers of fields in proc(5), where the name is 2
  int64_t ticks = 0;
  return fields >> ticks ? std::optional(ticks) : std::nullopt;
}

}  // namespace weft
