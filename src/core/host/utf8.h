// UTF-8: checking, and walking code points.
#pragma once
#include <cstdint>
#include <string>
#include <string_view>

namespace weft {

// Returns the index of the first byte that is not valid UTF-8, or npos. Overlong forms, surrogates and values above
// 10FFFF are not valid.
size_t InvalidUtf8(std::string_view text);

// Whether `text` is an incomplete code point, so that more bytes can complete it. False for "".
bool BeginsCodePoint(std::string_view text);

// Returns the code point at `at` and moves `at` past it. `text` must be valid UTF-8.
uint32_t NextCodePoint(std::string_view text, size_t& at);
size_t CountCodePoints(std::string_view text);
// Returns the length of `text` without a code point that is cut off at its end.
size_t WholeCodePoints(std::string_view text);
// Returns the length in bytes of the first `count` code points, or of all if there are fewer. Lowers `count` by the
// number found. In invalid UTF-8, each byte that cannot continue a code point begins one.
size_t SkipCodePoints(std::string_view text, int64_t& count);
void AppendUtf8(uint32_t code_point, std::string& out);
int Utf8Length(uint32_t code_point);  // in bytes

}  // namespace weft
