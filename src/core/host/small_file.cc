#include "weft/core/host/small_file.h"

#include <fstream>
#include <sstream>

namespace weft {

// Insertion catches what a buffer throws where the file cannot be read; an iterator over the buffer would not.
std::string SmallFileText(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

}  // namespace weft
