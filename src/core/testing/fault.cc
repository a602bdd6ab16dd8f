#include "weft/core/testing/fault.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_split.h"

namespace weft {
namespace {

struct Action {
  const char* name;
  int error;
};
constexpr int kKill = -1, kSlow = -2, kHang = -3;
constexpr Action kActions[] = {{"kill", kKill}, {"slow", kSlow},  {"hang", kHang},    {"enospc", ENOSPC},
                               {"eio", EIO},    {"erofs", EROFS}, {"eacces", EACCES}, {"einval", EINVAL}};

// Counts the calls at the point that the variable names. The count restarts when the variable changes.
bool IsDue(const char* point, const WantedFault& fault) {
  static std::mutex mutex;
  static std::pair<std::string, WantedFault> counted;
  static int calls = 0;
  std::pair<std::string, WantedFault> wanted{point, fault};
  std::lock_guard lock(mutex);
  if (counted != wanted) calls = 0;
  counted = wanted;
  calls++;
  return fault.onwards ? calls >= fault.nth : calls == fault.nth;
}

}  // namespace

std::optional<WantedFault> FaultWantedAt(const char* point) {
  const char* wanted = std::getenv("WEFT_FAULT");
  if (!wanted) [[likely]]
    return std::nullopt;
  std::vector<std::string> words = absl::StrSplit(wanted, ':');
  if (words.size() < 2 || words[0] != point) return std::nullopt;
  if (words.size() < 3) return WantedFault{words[1]};
  return WantedFault{words[1], std::atoi(words[2].c_str()), words[2].ends_with('+')};
}

int FaultAt(const char* point) {
  std::optional<WantedFault> wanted = FaultWantedAt(point);
  if (!wanted || !IsDue(point, *wanted)) return 0;
  for (const Action& action : kActions) {
    if (wanted->action != action.name) continue;
    if (action.error == kKill) std::raise(SIGKILL);
    if (action.error == kSlow) std::this_thread::sleep_for(std::chrono::seconds(1));
    if (action.error == kHang) std::this_thread::sleep_for(std::chrono::hours(1));
    return std::max(action.error, 0);
  }
  return 0;
}

}  // namespace weft
