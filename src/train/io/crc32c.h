// CRC-32C (Castagnoli), the checksum of checkpoint data and event files. In up to 2^31 bits it detects every change of
// up to three bits. It misses one in 2^32 of all other changes.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

// Returns the checksum of `bytes`. `before` is the checksum of the bytes that precede them.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
inline uint32_t Crc32c(std::string_view text, uint32_t before = 0) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())), before);
}

}  // namespace weft
