#include "weft/train/io/crc32c.h"

#include <array>
#include <bit>
#include <cstring>

namespace weft {
namespace {

static_assert(std::endian::native == std::endian::little, "words are taken as they lie in memory");

constexpr size_t kStride = 8;  // bytes that one step takes in ("slicing by 8")
using Tables = std::array<std::array<uint32_t, 256>, kStride>;

constexpr Tables MakeTables() {
  constexpr uint32_t kReflected = 0x82F63B78;
  Tables t{};
  for (uint32_t i = 0; i < 256; i++) {
    uint32_t crc = i;
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? kReflected : 0);
    t[0][i] = crc;
  }
  for (size_t k = 1; k < kStride; k++)  // k more bytes of zeros behind the byte
    for (uint32_t i = 0; i < 256; i++) t[k][i] = t[k - 1][i] >> 8 ^ t[0][t[k - 1][i] & 0xFF];
  return t;
}
constexpr Tables kTables = MakeTables();

}  // namespace

uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  const std::byte* at = bytes.data();
  const std::byte* end = at + bytes.size();
  uint64_t crc = ~before;
  for (; end - at >= std::ptrdiff_t(kStride); at += kStride) {
    uint64_t word;
    std::memcpy(&word, at, sizeof word);
    word ^= crc;
    crc = 0;
    for (size_t k = 0; k < kStride; k++) crc ^= kTables[kStride - 1 - k][word >> 8 * k & 0xFF];
  }
  for (; at != end; at++) crc = crc >> 8 ^ kTables[0][(crc ^ uint64_t(*at)) & 0xFF];
  return ~uint32_t(crc);
}

}  // namespace weft
