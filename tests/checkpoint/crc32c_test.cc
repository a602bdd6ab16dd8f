// The checksum agrees with its definition, whatever instructions the processor has for it.
#include "weft/train/io/crc32c.h"

#include <gtest/gtest.h>
#include <sys/mman.h>

#include <array>
#include <numeric>
#include <random>
#include <string>
#include <vector>

namespace weft {
namespace {

// Returns the remainder of the polynomial division, computed bit by bit.
uint32_t Defined(std::span<const std::byte> bytes) {
  constexpr uint32_t kReflected = 0x82F63B78;
  uint32_t crc = ~uint32_t{0};
  for (std::byte b : bytes) {
    crc ^= uint32_t(b);
    for (int bit = 0; bit < 8; bit++) crc = crc >> 1 ^ (crc & 1 ? kReflected : 0);
  }
  return ~crc;
}

std::vector<std::byte> Random(size_t size) {
  std::mt19937_64 random(size);
  std::vector<std::byte> bytes(size);
  for (std::byte& b : bytes) b = std::byte(random());
  return bytes;
}

// The test vectors of RFC 3720, B.4, and the check value of the catalogue of CRCs.
TEST(Crc32c, IsTheStandardOne) {
  std::string up(32, '\0'), down(32, '\0');
  std::iota(up.begin(), up.end(), '\0');
  std::iota(down.rbegin(), down.rend(), '\0');
  std::array<uint8_t, 48> read{0x01, 0xc0};  // an iSCSI command
  for (auto [at, byte] : {std::pair{16, 0x14}, {22, 0x04}, {27, 0x14}, {31, 0x18}, {32, 0x28}, {40, 0x02}})
    read[size_t(at)] = uint8_t(byte);
  EXPECT_EQ(Crc32c(std::string(32, '\0')), 0x8A9136AAu);
  EXPECT_EQ(Crc32c(std::string(32, '\xff')), 0x62A8AB43u);
  EXPECT_EQ(Crc32c(up), 0x46DD794Eu);
  EXPECT_EQ(Crc32c(down), 0x113FDB5Cu);
  EXPECT_EQ(Crc32c(std::as_bytes(std::span(read))), 0xD9963A56u);
  EXPECT_EQ(Crc32c(std::string_view("123456789")), 0xE3069283u);
}

// Every length up to 1000. The alignment to a word changes with the length and takes all eight values. Each text is
// also checked in two parts.
TEST(Crc32c, IsItsDefinitionAtEveryLengthAndAlignment) {
  constexpr size_t kMax = 1000, kWord = 8;
  std::vector<std::byte> bytes = Random(kMax + kWord);
  for (size_t length = 0; length <= kMax; length++) {
    std::span<const std::byte> whole = std::span(bytes).subspan(length % kWord, length);
    uint32_t want = Defined(whole);
    ASSERT_EQ(Crc32c(whole), want) << length;
    size_t cut = length * 7 % (length + 1);
    ASSERT_EQ(Crc32c(whole.subspan(cut), Crc32c(whole.first(cut))), want) << length << " cut at " << cut;
  }
}

// Lengths at which implementations switch between algorithms, cut at random places.
TEST(Crc32c, OfALongTextIsThatOfItsParts) {
  std::vector<std::byte> bytes = Random(3 << 20);
  uint32_t want = Defined(bytes);
  EXPECT_EQ(Crc32c(bytes), want);
  std::mt19937_64 random(1);
  for (int i = 0; i < 20; i++) {
    uint32_t crc = 0;
    for (size_t at = 0; at < bytes.size();) {
      size_t part = std::min<size_t>(bytes.size() - at, size_t(1) << (random() % 21));
      crc = Crc32c(std::span(bytes).subspan(at, part), crc);
      at += part;
    }
    ASSERT_EQ(crc, want);
  }
}

// The memory is a mapping of zeros, and the system keeps one page of it. The library counts bytes in an int, which ends
// at 2^31.
TEST(Crc32c, TakesMoreThanTwoGibibytes) {
  constexpr size_t kPiece = size_t(1) << 20, kPieces = (size_t(2) << 10) + 1;
  std::vector<std::byte> piece(kPiece);
  uint32_t want = 0;
  for (size_t i = 0; i < kPieces; i++) want = Crc32c(piece, want);
  std::vector<std::byte>().swap(piece);
  void* zeros = ::mmap(nullptr, kPiece * kPieces, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  ASSERT_NE(zeros, MAP_FAILED);
  EXPECT_EQ(Crc32c({static_cast<const std::byte*>(zeros), kPiece * kPieces}), want);
  ::munmap(zeros, kPiece * kPieces);
}

}  // namespace
}  // namespace weft
