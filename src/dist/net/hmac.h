// HMAC-SHA256 of libcrypto and random keys, with which the ranks of a job authenticate each other.
#pragma once
#include <array>
#include <cstdint>
#include <initializer_list>
#include <string_view>

namespace weft {

using Key = std::array<uint8_t, 32>;

// Returns the authentication code of a list of parts. It covers the lengths too, so {"ab", "c"} and {"a", "bc"} have
// different codes. Throws Error if libcrypto fails.
Key Hmac(const Key& key, std::initializer_list<std::string_view> parts);
// Compares in constant time.
bool SameKey(const Key& a, const Key& b);
// Returns 32 bytes from getrandom. Throws Error if the system gives none.
Key RandomKey();

// Returns the object representation of a value without padding.
template <class T>
std::string_view BytesOf(const T& value) {
  return {reinterpret_cast<const char*>(&value), sizeof(value)};
}

}  // namespace weft
