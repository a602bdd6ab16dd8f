// StableHash: FNV-1a over 64-bit words. It is the same in every process and build, so ranks can compare hashes.
// Changing one word always changes the hash.
#pragma once
#include <cstdint>
#include <string_view>

namespace weft {

class StableHash {
 public:
  void Mix(uint64_t word) { value_ = (value_ ^ word) * 0x100000001B3u; }
  void Mix(std::string_view text) {
    for (char c : text) Mix(uint64_t(uint8_t(c)));
  }
  uint64_t value() const { return value_; }

 private:
  uint64_t value_ = 0xCBF29CE484222325u;
};

}  // namespace weft
