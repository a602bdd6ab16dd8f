#include "weft/core/base/error.h"

#include <string_view>

namespace weft {

void Fail(const std::string& message) { throw Error(message); }

std::string ToString(const Loc& loc) {
  std::string_view file = loc.file_name();
  if (auto slash = file.rfind('/'); slash != std::string_view::npos) file.remove_prefix(slash + 1);
  return std::string(file) + ":" + std::to_string(loc.line());
}

}  // namespace weft
