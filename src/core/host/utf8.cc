#include "weft/core/host/utf8.h"

#include <algorithm>

namespace weft {
namespace {

// Returns the length of the sequence that starts with `lead`, or 0 if `lead` starts none.
int SequenceLength(uint8_t lead) {
  if (lead < 0x80) return 1;
  if (lead >= 0xC2 && lead < 0xE0) return 2;
  if (lead >= 0xE0 && lead < 0xF0) return 3;
  if (lead >= 0xF0 && lead < 0xF5) return 4;
  return 0;
}

// Only the second byte shows overlong forms, surrogates and values that are too large.
bool SecondByteFits(uint8_t lead, uint8_t second) {
  if (lead == 0xE0) return second >= 0xA0;
  if (lead == 0xED) return second < 0xA0;
  if (lead == 0xF0) return second >= 0x90;
  if (lead == 0xF4) return second < 0x90;
  return true;
}

bool IsContinuation(uint8_t byte) { return (byte & 0xC0) == 0x80; }

}  // namespace

size_t InvalidUtf8(std::string_view text) {
  for (size_t at = 0; at < text.size();) {
    int length = SequenceLength(uint8_t(text[at]));
    if (length == 0 || at + size_t(length) > text.size()) return at;
    if (length > 1 && !SecondByteFits(uint8_t(text[at]), uint8_t(text[at + 1]))) return at;
    for (int i = 1; i < length; i++) {
      if (!IsContinuation(uint8_t(text[at + size_t(i)]))) return at;
    }
    at += size_t(length);
  }
  return text.npos;
}

bool BeginsCodePoint(std::string_view text) {
  if (text.empty()) return false;
  auto lead = uint8_t(text[0]);
  if (int(text.size()) >= SequenceLength(lead)) return false;
  if (text.size() > 1 && !SecondByteFits(lead, uint8_t(text[1]))) return false;
  for (char ch : text.substr(1))
    if (!IsContinuation(uint8_t(ch))) return false;
  return true;
}

uint32_t NextCodePoint(std::string_view text, size_t& at) {
  uint8_t lead = uint8_t(text[at++]);
  int length = SequenceLength(lead);
  if (length <= 1) return lead;
  uint32_t value = lead & (0x7Fu >> length);
  for (int i = 1; i < length && at < text.size(); i++) value = value << 6 | (uint8_t(text[at++]) & 0x3Fu);
  return value;
}

size_t CountCodePoints(std::string_view text) {
  size_t count = 0;
  for (char ch : text) count += !IsContinuation(uint8_t(ch));
  return count;
}

size_t WholeCodePoints(std::string_view text) {
  constexpr size_t kLongest = 4;
  for (size_t back = 1; back <= std::min(text.size(), kLongest); back++) {
    auto byte = uint8_t(text[text.size() - back]);
    if (IsContinuation(byte)) continue;
    return size_t(SequenceLength(byte)) > back ? text.size() - back : text.size();
  }
  return text.size();
}

size_t SkipCodePoints(std::string_view text, int64_t& count) {
  for (size_t at = 0; at < text.size(); at++) {
    if (IsContinuation(uint8_t(text[at]))) continue;
    if (count == 0) return at;
    count--;
  }
  return text.size();
}

void AppendUtf8(uint32_t c, std::string& out) {
  if (c < 0x80) {
    out += char(c);
  } else if (c < 0x800) {
    out += {char(0xC0 | c >> 6), char(0x80 | (c & 0x3F))};
  } else if (c < 0x10000) {
    out += {char(0xE0 | c >> 12), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  } else {
    out += {char(0xF0 | c >> 18), char(0x80 | (c >> 12 & 0x3F)), char(0x80 | (c >> 6 & 0x3F)), char(0x80 | (c & 0x3F))};
  }
}

int Utf8Length(uint32_t c) { return c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4; }

}  // namespace weft
