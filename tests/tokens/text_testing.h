// Texts for tests of readers and tokenizers.
#pragma once
#include <cstdint>
#include <string>
#include <vector>

#include "weft/core/base/rng.h"
#include "weft/core/host/utf8.h"

namespace weft::testing_ {

inline uint32_t Draw(uint64_t seed, uint64_t i) { return Philox(seed, i, 0)[0]; }

// Returns valid UTF-8 without NUL: words and lines, code points of every length, and texts that are special to
// tokenizers.
inline std::string RandomText(uint64_t seed, size_t pieces) {
  static const std::vector<std::string> kOdd = {"\xE2\x96\x81", "\xE2\x96\x85", "\xEF\xBF\xBD", "\xF4\x8F\xBF\xBF",
                                                "\xEF\xBB\xBF", "\xC2\x85",     "<s>",          "<0x0A>",
                                                "<unk>",        "\r\n",         "\t",           "\n\n",
                                                "  ",           "\x7F",         "\x01",         "\xED\x9F\xBF"};
  std::string text;
  for (uint64_t i = 0; i < pieces; i++) {
    uint32_t bits = Draw(seed, i), value = bits >> 8;
    switch (bits % 8) {
      case 0:
        text += kOdd[value % kOdd.size()];
        break;
      case 1:
        AppendUtf8(value % 2 ? 1 + value % 0xD7FF : 0xE000 + value % 0x102000, text);
        break;
      case 2:
        text += value % 3 ? " " : "\n";
        break;
      default:
        text += char('a' + value % 7);
    }
  }
  return text;
}

// Returns lines of a few words in which pairs of letters recur.
inline std::string Prose(uint64_t seed, size_t words) {
  std::string text;
  for (uint64_t i = 0; i < words; i++) {
    uint32_t bits = Draw(seed, i) % 64;
    for (uint64_t j = 0; j < 2 + bits % 3; j++)
      text += std::string{"bdklmnprst"[(bits + j * 3) % 10], "aeiou"[(bits * 7 + j) % 5]};
    text += i % 9 == 8 ? "\n" : " ";
  }
  return text;
}

}  // namespace weft::testing_
