// Text of a small file that may go away while it is read, as those of /proc do.
#pragma once
#include <string>

namespace weft {

// All of the file, or what could be read of it: "" where it is not there.
std::string SmallFileText(const std::string& path);

}  // namespace weft
