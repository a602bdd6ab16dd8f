// The name of this host for messages and logs.
#pragma once
#include <string>

namespace weft {

std::string HostName();

}  // namespace weft
