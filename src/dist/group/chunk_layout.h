// ChunkLayout: how a dense tensor falls into the chunks of one dim, one chunk per rank, for packing them one after the
// other.
//
// A tensor of capacities [outer..., full, inner...] in chunks of `chunk` along the dim: packed, chunk r is a dense
// block [outer, chunk, inner] at r * block_bytes(). The last chunks may reach past `full`, or lie wholly beyond it.
#pragma once
#include "weft/core/runtime/kernel.h"
#include "weft/dist/group/process_group.h"

namespace weft {

struct ChunkLayout {
  int64_t outer = 1;        // product of the capacities before the dim
  int64_t full = 0;         // capacity of the dim in the whole tensor
  int64_t chunk = 0;        // capacity of the dim in a chunk
  int64_t inner_bytes = 0;  // bytes of one index of the dim
  int ranks = 1;

  // `whole` gives the dims, `chunk` the capacity of the dim in a piece.
  ChunkLayout(const TensorView& whole, int dim, int64_t chunk, int ranks);

  int64_t block_bytes() const { return outer * chunk * inner_bytes; }
  int64_t packed_bytes() const { return block_bytes() * ranks; }
  // The whole tensor already is its packed chunks.
  bool contiguous() const { return outer == 1 && chunk * ranks == full; }
  // Rows of chunk r that lie inside the whole.
  int64_t rows(int r) const;

  // What reaches past the whole is zero in the packed chunks, and is dropped when they are unpacked.
  void Pack(const ProcessGroup& device, const void* whole, void* packed) const;
  void Unpack(const ProcessGroup& device, const void* packed, void* whole) const;
};

}  // namespace weft
