#include "launcher/doctor/finding.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <set>

namespace weft {

Finding Alike(const char* what, const std::vector<std::string>& values, const char* remedy) {
  std::set<std::string> kinds(values.begin(), values.end());
  Finding f{.what = what, .fact = fmt::format("{}", fmt::join(kinds, ", "))};
  if (kinds.size() == 1) return f;
  f.grade = Finding::kFault;
  f.remedy = remedy;
  return f;
}

}  // namespace weft
