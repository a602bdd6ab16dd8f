#include "parallel/train/tokenizer.h"

#include <algorithm>
#include <set>

#include "fmt/format.h"
#include "parallel/train/utf8.h"

namespace weft {
namespace {
constexpr std::string_view kBytesLine = "bytes\n", kCharsLine = "chars\n";
}  // namespace

std::string Tokenizer::Table() const {
  if (!is_chars()) return std::string(kBytesLine);
  std::string table(kCharsLine);
  for (uint32_t code_point : code_points_) AppendUtf8(code_point, table);
  return table;
}

absl::StatusOr<Tokenizer> Tokenizer::FromTable(std::string_view table) {
  if (table == kBytesLine) return Bytes();
  bool chars = table.starts_with(kCharsLine) && table.size() > kCharsLine.size();
  if (!chars || InvalidUtf8(table) != table.npos)
    return absl::InvalidArgumentError(fmt::format(
        "expected the line bytes, or the line chars and characters in UTF-8, got {} bytes that begin with {:?}",
        table.size(), table.substr(0, kCharsLine.size())));
  return Chars({table.substr(kCharsLine.size())});
}

Tokenizer Tokenizer::Chars(const std::vector<std::string_view>& texts) {
  std::set<uint32_t> seen;
  for (std::string_view text : texts) {
    for (size_t at = 0; at < text.size();) seen.insert(NextCodePoint(text, at));
  }
  return Tokenizer({seen.begin(), seen.end()});
}

absl::StatusOr<std::vector<int32_t>> Tokenizer::Encode(std::string_view text) const {
  std::vector<int32_t> tokens;
  tokens.reserve(text.size());
  if (!is_chars()) {
    for (char byte : text) tokens.push_back(uint8_t(byte));
    return tokens;
  }
  if (size_t bad = InvalidUtf8(text); bad != text.npos) {
    return absl::InvalidArgumentError(
        fmt::format("expected UTF-8 text, got the byte 0x{:02x} at offset {}", uint8_t(text[bad]), bad));
  }
  for (size_t at = 0; at < text.size();) {
    size_t begin = at;
    uint32_t code_point = NextCodePoint(text, at);
    auto found = std::lower_bound(code_points_.begin(), code_points_.end(), code_point);
    if (found == code_points_.end() || *found != code_point) {
      return absl::InvalidArgumentError(
          fmt::format("the character {:?} at offset {} is not among the {} of the "
                      "training text",
                      text.substr(begin, at - begin), begin, vocab()));
    }
    tokens.push_back(int32_t(found - code_points_.begin()));
  }
  return tokens;
}

std::string Tokenizer::Decode(std::span<const int32_t> tokens) const {
  constexpr uint32_t kReplacement = 0xFFFD;
  std::string text;
  for (int32_t token : tokens) {
    bool known = token >= 0 && token < vocab();
    if (known && !is_chars()) {
      text += char(uint8_t(token));
    } else {
      AppendUtf8(known ? code_points_[size_t(token)] : kReplacement, text);
    }
  }
  return text;
}

int Tokenizer::BytesOf(int32_t token) const { return is_chars() ? Utf8Length(code_points_[size_t(token)]) : 1; }

}  // namespace weft
