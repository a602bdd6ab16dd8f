#include "core/base/fault.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <tuple>
#include <vector>

#include "absl/strings/str_split.h"

namespace weft {
namespace {

struct Action {
  const char* name;
  int error;
};
constexpr int kKill = -1;
constexpr Action kActions[] = {{"kill", kKill},  {"enospc", ENOSPC}, {"eio", EIO},
                               {"erofs", EROFS}, {"eacces", EACCES}, {"einval", EINVAL}};

// Counts the calls at the point that the variable names, afresh whenever it changes.
bool IsDue(const char* point, const WantedFault& fault) {
  static std::mutex mutex;
  static std::tuple<std::string, std::string, int> counted;
  static int calls = 0;
  std::tuple<std::string, std::string, int> wanted{point, fault.action, fault.nth};
  std::lock_guard lock(mutex);
  if (counted != wanted) calls = 0;
  counted = wanted;
  return ++calls == fault.nth;
}

}  // namespace

std::optional<WantedFault> FaultWantedAt(const char* point) {
  const char* wanted = std::getenv("WEFT_FAULT");
  if (!wanted) [[likely]]
    return std::nullopt;
  std::vector<std::string> words = absl::StrSplit(wanted, ':');
  if (words.size() < 2 || words[0] != point) return std::nullopt;
  return WantedFault{words[1], words.size() > 2 ? std::atoi(words[2].c_str()) : 1};
}

int FaultAt(const char* point) {
  std::optional<WantedFault> wanted = FaultWantedAt(point);
  if (!wanted || !IsDue(point, *wanted)) return 0;
  for (const Action& action : kActions) {
    if (wanted->action != action.name) continue;
    if (action.error == kKill) std::raise(SIGKILL);
    return action.error;
  }
  return 0;
}

}  // namespace weft
