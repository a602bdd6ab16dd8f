// Counter-based random numbers: Philox4x32-10 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", SC 2011).
//
// A number is a function of a key and the element's global index, so it does not depend on mesh, device or launch
// shape. Four consecutive elements of a row (the last dim) share one Philox block, and every row starts a new block:
//   block = row * ceil(row_length / 4) + column / 4, lane = column % 4.
// Dropout uses eight elements per block, see below.
#pragma once
#include <array>
#include <cstdint>
#include <string_view>

namespace weft {

// The purpose of the numbers. It is part of the key, so that evaluation never shifts the training stream.
enum class RandomPhase : uint8_t { kInit, kTrain, kEval, kGenerate, kData };

// Returns the 64-bit key of the `ordinal`-th random op of module `path`. Key and step together name a stream.
uint64_t RandomKey(uint64_t seed, RandomPhase phase, std::string_view path, uint64_t ordinal);

inline std::array<uint32_t, 4> Philox(uint64_t key, uint64_t step, uint64_t block) {
  uint32_t k0 = uint32_t(key), k1 = uint32_t(key >> 32);
  std::array<uint32_t, 4> c{uint32_t(block), uint32_t(block >> 32), uint32_t(step), uint32_t(step >> 32)};
  for (int round = 0; round < 10; round++) {
    uint64_t p0 = uint64_t(0xD2511F53u) * c[0], p1 = uint64_t(0xCD9E8D57u) * c[2];
    c = {uint32_t(p1 >> 32) ^ c[1] ^ k0, uint32_t(p1), uint32_t(p0 >> 32) ^ c[3] ^ k1, uint32_t(p0)};
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
  return c;
}

// Returns a number in (0, 1), computed exactly: (bits + 1/2) / 2^32.
inline double UniformFromBits(uint32_t bits) { return (double(bits) + 0.5) * 0x1p-32; }
// Returns a standard normal number by inversion (Wichura, algorithm AS 241). The computation is a fixed sequence of
// IEEE f64 operations, so it is bit-equal on every device.
double NormalFromBits(uint32_t bits);
// Dropout needs 16 bits per element, so one Philox block serves eight elements of a row:
//   block = row * ceil(row_length / 8) + column / 8, bits = half column % 2 (0: the lower) of lane column % 8 / 2.
// An element is dropped iff its bits are below the threshold. Its probability is threshold / 2^16, which is p rounded
// to a multiple of 2^-16.
inline constexpr int kDropoutWords = 8;
inline uint32_t DropoutThreshold(double p) { return uint32_t(p * 65536.0 + 0.5); }
// Returns the factor for the elements that are kept. It preserves the mean. It is infinite if no element is kept.
inline double DropoutScale(double p) { return 65536.0 / (65536.0 - DropoutThreshold(p)); }

}  // namespace weft
