// The name of this host, as messages and logs give it.
#pragma once
#include <string>

namespace weft {

std::string HostName();

}  // namespace weft
