// HMAC-SHA256 of libcrypto, and random keys: what the ranks of a job prove themselves by.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace weft {

using Key = std::array<uint8_t, 32>;

// The code of a list of parts. Lengths are covered too: {"ab", "c"} and {"a", "bc"} have different codes. Throws Error
// when libcrypto fails.
Key Hmac(const Key& key, std::initializer_list<std::string_view> parts);
// Compares in a time that does not depend on the contents.
bool SameKey(const Key& a, const Key& b);
// 32 bytes of getrandom. Throws Error when there are none.
Key RandomKey();

// The bytes of a value that has no padding, as they lie in memory.
template <class T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace weft
