// RankList: formats any number of ranks for a message.
#pragma once
#include <span>
#include <string>

namespace weft {

// Returns at most 8 ranges: "3", "0-2, 5", "1-999999", "1, 3, 5, 7, 9, 11, 13, 15 and 499,992 more". Requires `ranks`
// in ascending order.
std::string RankList(std::span<const int> ranks);

}  // namespace weft
