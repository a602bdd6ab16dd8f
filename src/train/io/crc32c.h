// CRC-32C (Castagnoli): the checksum of what checkpoints and event files hold. It finds every change of up to three
// bits in 2^31 of them, and all but one in 2^32 of any other.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>

namespace weft {

// Of `bytes` behind those whose checksum is `before`.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before = 0);
inline uint32_t Crc32c(std::string_view text, uint32_t before = 0) {
  return Crc32c(std::as_bytes(std::span(text.data(), text.size())), before);
}

}  // namespace weft
