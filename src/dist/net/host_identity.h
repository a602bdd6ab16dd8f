// HostIdentity: identifies hosts. Host names are not enough, because images and containers often share one.
#pragma once
#include <string>

namespace weft {

// Equal for processes that share a loopback interface, which means one boot of one kernel and one network namespace.
// Contains no spaces. Falls back to the host's name if /proc cannot be read.
std::string HostIdentity();

// Equal for processes that see each other's process ids, which means one boot of one kernel and one pid namespace. Has
// the same fallback.
std::string ProcessSpace();

}  // namespace weft
