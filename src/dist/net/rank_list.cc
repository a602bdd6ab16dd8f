#include "weft/dist/net/rank_list.h"

#include <fmt/format.h>

namespace weft {
namespace {

std::string WithCommas(size_t number) {
  std::string digits = std::to_string(number);
  for (size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, 1, ',');
  return digits;
}

}  // namespace

std::string RankList(std::span<const int> ranks) {
  constexpr int kMaxRanges = 8;
  std::string text;
  size_t at = 0;
  for (int ranges = 0; at < ranks.size() && ranges < kMaxRanges; ranges++) {
    size_t first = at++;
    while (at < ranks.size() && ranks[at] == ranks[at - 1] + 1) at++;
    text += fmt::format("{}{}", text.empty() ? "" : ", ", ranks[first]);
    if (at - first > 1) text += fmt::format("{}{}", at - first > 2 ? "-" : ", ", ranks[at - 1]);
  }
  return at < ranks.size() ? fmt::format("{} and {} more", text, WithCommas(ranks.size() - at)) : text;
}

}  // namespace weft
