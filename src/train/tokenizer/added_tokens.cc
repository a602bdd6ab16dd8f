#include "weft/train/tokenizer/added_tokens.h"

#include <algorithm>

#include "weft/core/host/utf8.h"

namespace weft {
namespace {

// Unicode's White_Space property.
bool IsSpace(uint32_t c) {
  return (c >= 0x9 && c <= 0xD) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 || (c >= 0x2000 && c <= 0x200A) ||
         c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F || c == 0x3000;
}

// Returns the beginning of the white space that ends at `end`. The result is at least `least`.
size_t SpaceBegin(std::string_view text, size_t least, size_t end) {
  while (end > least) {
    size_t begin = end - 1;
    while (begin > least && (uint8_t(text[begin]) & 0xC0) == 0x80) begin--;
    size_t at = begin;
    if (!IsSpace(NextCodePoint(text, at))) break;
    end = begin;
  }
  return end;
}

// Returns the end of the white space that begins at `begin`.
size_t SpaceEnd(std::string_view text, size_t begin) {
  for (size_t at = begin; at < text.size(); begin = at)
    if (!IsSpace(NextCodePoint(text, at))) break;
  return begin;
}

}  // namespace

bool BeginsWithSpace(const AddedToken& token) {
  size_t at = 0;
  return IsSpace(NextCodePoint(token.content, at));
}

AddedTokens::AddedTokens(std::vector<AddedToken> tokens) : tokens_(std::move(tokens)) {
  std::ranges::sort(tokens_, {}, &AddedToken::content);
  for (const AddedToken& token : tokens_) {
    begins_[uint8_t(token.content[0])] = true;
    longest_ = std::max(longest_, token.content.size());
    any_takes_space_before_ |= token.takes_space_before;
  }
}

// The tokens are sorted, so those that begin with the first bytes of the text are a range. Each further byte narrows
// it.
const AddedToken* AddedTokens::LongestAt(std::string_view text, size_t at) const {
  const AddedToken* longest = nullptr;
  auto low = tokens_.begin(), high = tokens_.end();
  for (size_t i = 0; at + i < text.size(); i++) {
    auto byte = [i](const AddedToken& token) { return i < token.content.size() ? int(uint8_t(token.content[i])) : -1; };
    auto range = std::ranges::equal_range(low, high, int(uint8_t(text[at + i])), {}, byte);
    low = range.begin(), high = range.end();
    if (low == high) break;
    if (low->content.size() == i + 1) longest = &*low;
  }
  return longest;
}

AddedTokens::Search AddedTokens::Find(std::string_view text, size_t from, bool ends) const {
  auto before = [&](size_t at) {
    while (at > from && at < text.size() && (uint8_t(text[at]) & 0xC0) == 0x80) at--;  // the beginning of a code point
    return any_takes_space_before_ ? SpaceBegin(text, from, at) : at;
  };
  if (tokens_.empty()) return {std::nullopt, text.size()};
  for (size_t at = from; at < text.size(); at++) {
    bool cut = !ends && text.size() - at < longest_;
    if (cut) return {std::nullopt, before(at)};
    const AddedToken* token = begins_[uint8_t(text[at])] ? LongestAt(text, at) : nullptr;
    if (!token) continue;
    size_t end = at + token->content.size();
    if (token->takes_space_after) end = SpaceEnd(text, end);
    if (!ends && token->takes_space_after && end == text.size()) return {std::nullopt, before(at)};
    size_t begin = token->takes_space_before ? SpaceBegin(text, from, at) : at;
    return {Match{begin, end, token->id}, begin};
  }
  return {std::nullopt, ends ? text.size() : before(text.size())};
}

}  // namespace weft
