#include "parallel/checkpoint/fault.h"

#include <cerrno>
#include <csignal>
#include <cstdlib>
#include <iterator>
#include <mutex>
#include <string>
#include <vector>

#include "absl/strings/str_split.h"

namespace weft {
namespace {

struct Action {
  const char* name;
  int error;
};
constexpr int kKill = -1;
constexpr Action kActions[] = {{"kill", kKill}, {"enospc", ENOSPC}, {"eio", EIO}, {"erofs", EROFS}, {"eacces", EACCES}};

// Counts the calls at the point that the variable names, afresh whenever it changes.
bool IsDue(const std::string& wanted, int nth) {
  static std::mutex mutex;
  static std::string counted;
  static int calls = 0;
  std::lock_guard lock(mutex);
  if (counted != wanted) calls = 0;
  counted = wanted;
  return ++calls == nth;
}

}  // namespace

int FaultAt(const char* point) {
  const char* wanted = std::getenv("WEFT_FAULT");
  if (!wanted) [[likely]]
    return 0;
  std::vector<std::string> words = absl::StrSplit(wanted, ':');
  if (words.size() < 2 || words[0] != point) return 0;
  if (!IsDue(wanted, words.size() > 2 ? std::atoi(words[2].c_str()) : 1)) return 0;
  for (const Action& action : kActions) {
    if (words[1] != action.name) continue;
    if (action.error == kKill) std::raise(SIGKILL);
    return action.error;
  }
  return 0;
}

}  // namespace weft
