#include "weft/dist/group/chunk_layout.h"

#include <fmt/format.h>

#include <algorithm>

namespace weft {

ChunkLayout::ChunkLayout(const TensorView& whole, int dim, int64_t piece, int num_ranks)
    : chunk(piece), ranks(num_ranks) {
  WEFT_CHECK(dim >= 0 && dim < whole.rank,
             fmt::format("collective over dim {} of a tensor with {} dims", dim, whole.rank));
  full = whole.dim(dim).capacity;
  inner_bytes = int64_t(SizeOf(whole.dtype));
  for (int d = 0; d < whole.rank; d++) {
    if (d < dim) outer *= whole.dim(d).capacity;
    if (d > dim) inner_bytes *= whole.dim(d).capacity;
  }
  WEFT_CHECK(chunk * ranks >= full,
             fmt::format("collective over dim {}: {} chunks of {} do not cover {}", dim, ranks, chunk, full));
}

int64_t ChunkLayout::rows(int r) const { return std::clamp<int64_t>(full - r * chunk, 0, chunk); }

void ChunkLayout::Pack(const ProcessGroup& device, const void* whole, void* packed) const {
  for (int r = 0; r < ranks; r++) {
    char* block = static_cast<char*>(packed) + r * block_bytes();
    if (rows(r) < chunk) device.Zero(block, block_bytes());
    const char* from = static_cast<const char*>(whole) + r * chunk * inner_bytes;
    device.CopyRows(block, chunk * inner_bytes, from, full * inner_bytes, rows(r) * inner_bytes, outer);
  }
}

void ChunkLayout::Unpack(const ProcessGroup& device, const void* packed, void* whole) const {
  for (int r = 0; r < ranks; r++) {
    const char* block = static_cast<const char*>(packed) + r * block_bytes();
    char* to = static_cast<char*>(whole) + r * chunk * inner_bytes;
    device.CopyRows(to, full * inner_bytes, block, chunk * inner_bytes, rows(r) * inner_bytes, outer);
  }
}

}  // namespace weft
