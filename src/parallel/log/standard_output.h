// What is printed on stdout: what is lost there, on a full disk, say, must not pass for printed.
#pragma once
#include <string_view>

#include "absl/status/status.h"

namespace weft {

// Writes all of it by now. kUnavailable, with the system's reason, when this or anything before it was lost.
absl::Status Print(std::string_view text);
// The same of what was written to stdout by other means.
absl::Status CheckPrinted();

}  // namespace weft
