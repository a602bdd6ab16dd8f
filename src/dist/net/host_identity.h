// HostIdentity: what tells hosts apart. Names do not: images and containers often share one.
#pragma once
#include <string>

namespace weft {

// Equal for processes that share a loopback: of one boot of one kernel, in one network namespace. Without spaces. Where
// /proc does not tell, it is the host's name.
std::string HostIdentity();

// Equal for processes that see each other's process ids: of one boot of one kernel, in one process namespace.
std::string ProcessSpace();

}  // namespace weft
