// Reads a small file that may disappear during the read, like the files of /proc.
#pragma once
#include <string>

namespace weft {

// Returns the contents of the file, or as much as could be read: "" if it does not exist.
std::string SmallFileText(const std::string& path);

}  // namespace weft
