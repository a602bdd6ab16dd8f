#include "weft/core/host/message.h"

#include <algorithm>

#include "weft/core/host/utf8.h"

namespace weft {
namespace {

bool IsPrintable(uint32_t c) {
  if (c == '\n' || c == '\t') return true;
  bool control = c < 0x20 || (c >= 0x7F && c < 0xA0);
  bool turns = (c >= 0x202A && c <= 0x202E) || (c >= 0x2066 && c <= 0x2069);  // bidirectional embeddings and isolates
  return !control && !turns;
}

void AppendHex(std::string_view bytes, std::string& out) {
  for (char byte : bytes) out += fmt::format("\\x{:02X}", uint8_t(byte));
}

}  // namespace

std::string Printable(std::string_view text) {
  std::string shown;
  while (!text.empty()) {
    std::string_view valid = text.substr(0, InvalidUtf8(text));
    for (size_t at = 0; at < valid.size();) {
      size_t begin = at;
      bool printable = IsPrintable(NextCodePoint(valid, at));
      std::string_view character = valid.substr(begin, at - begin);
      printable ? void(shown += character) : AppendHex(character, shown);
    }
    text.remove_prefix(valid.size());
    std::string_view invalid = text.substr(0, 1);
    AppendHex(invalid, shown);
    text.remove_prefix(invalid.size());
  }
  return shown;
}

void PrintMessage(std::FILE* out, std::string_view text) {
  std::string shown = Printable(text);
  std::fwrite(shown.data(), 1, shown.size(), out);
}

}  // namespace weft
