// ChunkLayout: splits a dense tensor into chunks of one dim, one chunk per rank, and packs them one after another.
//
// For a tensor of capacities [outer..., full, inner...] and chunks of `chunk` along the dim, packed chunk r is a dense
// block [outer, chunk, inner] at r * block_bytes(). The last chunks may extend past `full` or lie wholly beyond it.
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

  // `whole` is the whole tensor, `chunk` the capacity of the dim in a chunk. Throws Error if the chunks do not cover
  // the dim.
  ChunkLayout(const TensorView& whole, int dim, int64_t chunk, int ranks);

  int64_t block_bytes() const { return outer * chunk * inner_bytes; }
  int64_t packed_bytes() const { return block_bytes() * ranks; }
  // Returns whether the chunks are full, so that the whole tensor is [outer, ranks, chunk, inner].
  bool even() const { return chunk * ranks == full; }
  // Returns whether the whole tensor already has the layout of its packed chunks.
  bool contiguous() const { return outer == 1 && even(); }
  // Returns the number of rows of chunk r that lie inside the whole tensor.
  int64_t rows(int r) const;

  // Pack fills rows past the end of the whole tensor with zeros, and Unpack drops them.
  void Pack(const ProcessGroup& device, const void* whole, void* packed) const;
  void Unpack(const ProcessGroup& device, const void* packed, void* whole) const;
};

}  // namespace weft
