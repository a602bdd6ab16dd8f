// AddedTokens: tokens such as <|endoftext|> that are found in a text as they are spelt, before it is cut into words.
#pragma once
#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace weft {

struct AddedToken {
  std::string content;  // not empty
  int32_t id = 0;
  bool takes_space_before = false, takes_space_after = false;  // the white space there is a part of it
};

bool BeginsWithSpace(const AddedToken& token);

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  // in the text
    int32_t id;
  };
  struct Search {
    std::optional<Match> match;
    size_t clear;  // without a match: no byte from `from` up to here is in a match, whatever follows
  };
  // Finds the first match that begins at `from` or after it, of two there the longer. If `ends` is false, text
  // follows, and a match that it could change does not count.
  Search Find(std::string_view text, size_t from, bool ends) const;

 private:
  const AddedToken* LongestAt(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> begins_{};  // whether a token begins with the byte
  size_t longest_ = 0;              // content
  bool any_takes_space_before_ = false;
};

}  // namespace weft
