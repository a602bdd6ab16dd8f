// AddedTokens: finds tokens such as <|endoftext|> in a text by their exact spelling, before the text is split into
// words.
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
  bool takes_space_before = false, takes_space_after = false;  // whether a match includes adjacent white space
};

bool BeginsWithSpace(const AddedToken& token);

class AddedTokens {
 public:
  AddedTokens() = default;
  explicit AddedTokens(std::vector<AddedToken> tokens);

  struct Match {
    size_t begin, end;  // byte offsets in the text
    int32_t id;
  };
  struct Search {
    std::optional<Match> match;
    size_t clear;  // set if there is no match: no byte in [from, clear) is in a match, whatever text follows
  };
  // Finds the first match that begins at or after `from`; if two begin there, the longer one. `ends` is false if more
  // text follows. Then a match that the following text could change does not count.
  Search Find(std::string_view text, size_t from, bool ends) const;

 private:
  const AddedToken* LongestAt(std::string_view text, size_t at) const;

  std::vector<AddedToken> tokens_;  // sorted by content
  std::array<bool, 256> begins_{};  // whether a token begins with the byte
  size_t longest_ = 0;              // bytes of the longest content
  bool any_takes_space_before_ = false;
};

}  // namespace weft
