// Messages: how text from outside is made safe to show on a terminal.
#include "weft/core/host/message.h"

#include <gtest/gtest.h>

#include <cstdlib>
#include <random>

#include "weft/core/host/utf8.h"

namespace weft {
namespace {

// Whether the code point controls a terminal or changes the order in which it shows text.
bool IsControl(uint32_t c) {
  return (c < 0x20 && c != '\n' && c != '\t') || (c >= 0x7F && c <= 0x9F) || (c >= 0x202A && c <= 0x202E) ||
         (c >= 0x2066 && c <= 0x2069);
}
bool IsPlain(std::string_view text) {
  if (InvalidUtf8(text) != text.npos) return false;
  for (size_t at = 0; at < text.size();)
    if (IsControl(NextCodePoint(text, at))) return false;
  return true;
}
// Replaces every \xNN by the byte that it stands for.
std::string Unescaped(std::string_view text) {
  std::string bytes;
  for (size_t at = 0; at < text.size(); at++) {
    bool escaped = text.substr(at, 2) == "\\x";
    bytes += escaped ? char(std::strtol(std::string(text.substr(at + 2, 2)).c_str(), nullptr, 16)) : text[at];
    if (escaped) at += 3;
  }
  return bytes;
}

TEST(Printable, ShowsBytesThatAreNoTextAsNumbers) {
  EXPECT_EQ(Printable("loss 3.5\n\tnext\n"), "loss 3.5\n\tnext\n");
  EXPECT_EQ(Printable("a\x1b[2Jb\r\x07\x7f"), "a\\x1B[2Jb\\x0D\\x07\\x7F");
  EXPECT_EQ(Printable("Grüße, 世界"), "Grüße, 世界");
  EXPECT_EQ(Printable("\xff\xc3"), "\\xFF\\xC3");
  EXPECT_EQ(Printable("\xc2\x9b"), "\\xC2\\x9B");  // some terminals treat it like ESC [
  EXPECT_EQ(Printable(std::string_view("\0", 1)), "\\x00");
}

TEST(Printable, KeepsEveryCodePointButThoseThatControl) {
  for (uint32_t c = 0; c <= 0x10FFFF; c++) {
    if (c >= 0xD800 && c <= 0xDFFF) continue;
    std::string text;
    AppendUtf8(c, text);
    std::string shown = Printable("a" + text + "b");
    ASSERT_EQ(shown == "a" + text + "b", !IsControl(c)) << c;
    ASSERT_EQ(Unescaped(shown), "a" + text + "b") << c;
  }
}

TEST(Printable, IsPlainAndLosesNothingOfAnyBytes) {
  std::mt19937 rng(1);
  for (int i = 0; i < 20000; i++) {
    std::string bytes(rng() % 40, '\0');
    uint32_t most = i % 2 ? 0xFF : 0x3F;  // few distinct values, so that more of the text is nearly UTF-8
    for (char& byte : bytes) byte = char(i % 2 ? rng() & most : 0xC0 ^ (rng() & most) ^ (rng() % 2 ? 0x40 : 0));
    std::erase(bytes, '\\');
    std::string shown = Printable(bytes);
    ASSERT_TRUE(IsPlain(shown)) << shown;
    ASSERT_EQ(Unescaped(shown), bytes) << shown;
    ASSERT_EQ(Printable(shown), shown);
  }
}

TEST(PrintMessage, DoesNotThrowWhereNothingCanBeWritten) {
  std::FILE* full = std::fopen("/dev/full", "w");
  ASSERT_TRUE(full);
  EXPECT_NO_THROW(PrintMessage(full, std::string(100'000, 'a')));
  EXPECT_NE(std::ferror(full), 0);
  std::fclose(full);
}

}  // namespace
}  // namespace weft
