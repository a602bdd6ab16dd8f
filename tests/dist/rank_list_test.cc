// Lists of ranks in messages are complete if they are short, and never exceed a fixed length.
#include "weft/dist/net/rank_list.h"

#include <gtest/gtest.h>

#include <numeric>
#include <random>
#include <set>
#include <vector>

namespace weft {
namespace {

std::vector<int> Range(int first, int last, int step = 1) {
  std::vector<int> ranks;
  for (int r = first; r <= last; r += step) ranks.push_back(r);
  return ranks;
}

TEST(RankList, NamesRanges) {
  EXPECT_EQ(RankList(std::vector<int>{}), "");
  EXPECT_EQ(RankList(std::vector<int>{3}), "3");
  EXPECT_EQ(RankList(std::vector<int>{0, 1, 2, 5}), "0-2, 5");
  EXPECT_EQ(RankList(std::vector<int>{0, 1, 7, 8}), "0, 1, 7, 8");
  EXPECT_EQ(RankList(Range(1, 999'999)), "1-999999");
  EXPECT_EQ(RankList(Range(1, 999'999, 2)), "1, 3, 5, 7, 9, 11, 13, 15 and 499,992 more");
}

// Returns the ranks that the text names, and the number of further ranks that it counts.
std::pair<std::set<int>, size_t> Read(const std::string& text) {
  std::set<int> named;
  size_t more = 0;
  std::string list = text.substr(0, text.find(" and "));
  for (size_t at = 0; at < list.size();) {
    size_t end = std::min(list.find(", ", at), list.size());
    std::string range = list.substr(at, end - at);
    int first = std::stoi(range),
        last = range.find('-') == range.npos ? first : std::stoi(range.substr(range.find('-') + 1));
    for (int r = first; r <= last; r++) named.insert(r);
    at = end + 2;
  }
  if (size_t at = text.find(" and "); at != text.npos) {
    std::string digits = text.substr(at + 5);
    std::erase(digits, ',');
    more = size_t(std::stoul(digits));
  }
  return {named, more};
}

TEST(RankList, NamesTheFirstRanksAndCountsTheRest) {
  std::mt19937 rng(1);
  for (int i = 0; i < 2000; i++) {
    std::vector<int> ranks;
    unsigned density = 1 + rng() % 10;
    for (int r = 0; r < int(rng() % 3000); r++)
      if (rng() % 10 < density) ranks.push_back(r);
    std::string text = RankList(ranks);
    auto [named, more] = Read(text);
    ASSERT_LE(text.size(), 120u) << text;
    ASSERT_EQ(named.size() + more, ranks.size()) << text;
    ASSERT_EQ(named, std::set<int>(ranks.begin(), ranks.end() - std::ptrdiff_t(more))) << text;
  }
}

}  // namespace
}  // namespace weft
