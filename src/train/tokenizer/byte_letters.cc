#include "weft/train/tokenizer/byte_letters.h"

#include <array>
#include <cstdint>

#include "weft/core/host/utf8.h"

namespace weft {
namespace {

constexpr bool IsPrintable(int byte) {
  return (byte >= '!' && byte <= '~') || (byte >= 0xA1 && byte <= 0xAC) || (byte >= 0xAE && byte <= 0xFF);
}

constexpr int kLetters = 256 + 68;

// Indexed by code point; -1 for code points that are not letters.
constexpr std::array<int16_t, kLetters> BytesByLetter() {
  std::array<int16_t, kLetters> bytes{};
  bytes.fill(-1);
  int next = 256;
  for (int byte = 0; byte < 256; byte++) bytes[size_t(IsPrintable(byte) ? byte : next++)] = int16_t(byte);
  return bytes;
}

}  // namespace

std::optional<std::string> BytesOfLetters(std::string_view letters) {
  constexpr std::array<int16_t, kLetters> kBytes = BytesByLetter();
  std::string bytes;
  for (size_t at = 0; at < letters.size();) {
    uint32_t letter = NextCodePoint(letters, at);
    if (letter >= kLetters || kBytes[letter] < 0) return std::nullopt;
    bytes += char(kBytes[letter]);
  }
  return bytes;
}

}  // namespace weft
