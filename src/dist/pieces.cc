#include "dist/pieces.h"

#include <cstdint>
#include <cstring>

#include "core/base/error.h"

namespace weft {

std::string JoinPieces(const std::vector<std::string>& pieces) {
  std::string bytes;
  for (const std::string& piece : pieces) {
    auto length = uint32_t(piece.size());
    bytes.append(reinterpret_cast<const char*>(&length), sizeof(length));
    bytes += piece;
  }
  return bytes;
}

std::vector<std::string> SplitPieces(std::string_view bytes) {
  std::vector<std::string> pieces;
  while (!bytes.empty()) {
    uint32_t length = 0;
    WEFT_CHECK(bytes.size() >= sizeof(length), "bootstrap: a rank sent a message that is cut off");
    std::memcpy(&length, bytes.data(), sizeof(length));
    bytes.remove_prefix(sizeof(length));
    WEFT_CHECK(bytes.size() >= length, "bootstrap: a rank sent a message that is cut off");
    pieces.emplace_back(bytes.substr(0, length));
    bytes.remove_prefix(length);
  }
  return pieces;
}

}  // namespace weft
