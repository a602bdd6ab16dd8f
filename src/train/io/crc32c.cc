#include "weft/train/io/crc32c.h"

#include <isa-l/crc.h>

#include <algorithm>

namespace weft {

// ISA-L uses the processor's CRC instructions, or a table on a processor without them. It takes the byte count as an
// int and leaves the inversion before and after to the caller.
uint32_t Crc32c(std::span<const std::byte> bytes, uint32_t before) {
  constexpr size_t kMaxCall = size_t(1) << 30;
  uint32_t crc = ~before;
  while (!bytes.empty()) {
    std::span<const std::byte> part = bytes.first(std::min(bytes.size(), kMaxCall));
    // crc32_iscsi only reads the data.
    auto* data = const_cast<unsigned char*>(reinterpret_cast<const unsigned char*>(part.data()));
    crc = crc32_iscsi(data, int(part.size()), crc);
    bytes = bytes.subspan(part.size());
  }
  return ~crc;
}

}  // namespace weft
