// UTF-8: checking, and walking code points.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// The index of the first byte that is not UTF-8 (overlong forms, surrogates and values above 10FFFF are not), or npos.
size_t InvalidUtf8(std::string_view text);

// Whether more bytes can make this, the first bytes of a text, one code point: "" is no such beginning.
bool BeginsCodePoint(std::string_view text);

// The code point at `at` of valid UTF-8; moves `at` behind it.
uint32_t NextCodePoint(std::string_view text, size_t& at);
size_t CountCodePoints(std::string_view text);
// The length of `text` without a code point that its end cuts.
size_t WholeCodePoints(std::string_view text);
// The length of the first `count` code points, or of all that there are; lowers `count` by them. Of bytes that are not
// UTF-8, each that cannot continue a code point begins one.
size_t SkipCodePoints(std::string_view text, int64_t& count);
void AppendUtf8(uint32_t code_point, std::string& out);
int Utf8Length(uint32_t code_point);  // bytes

}  // namespace weft
