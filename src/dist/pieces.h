// Pieces: some byte strings as one, each after its length (32 bits, as this host writes them).
#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace weft {

std::string JoinPieces(const std::vector<std::string>& pieces);
// Throws Error where the bytes end within a piece.
std::vector<std::string> SplitPieces(std::string_view bytes);

}  // namespace weft
