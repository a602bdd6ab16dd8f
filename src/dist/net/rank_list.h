// RankList: ranks as a message names them, however many there are.
#pragma once
#include <span>
#include <string>

namespace weft {

// "3", "0-2, 5", "1-999999", "1, 3, 5, 7, 9, 11, 13, 15 and 499,992 more": at most 8 ranges. `ranks` ascend.
std::string RankList(std::span<const int> ranks);

}  // namespace weft
