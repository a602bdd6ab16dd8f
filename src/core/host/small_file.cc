#include "weft/core/host/small_file.h"

#include <fstream>
#include <sstream>

namespace weft {

// operator<< catches an exception of the file buffer if the file cannot be read. An iterator over the buffer would not.
std::string SmallFileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace weft
