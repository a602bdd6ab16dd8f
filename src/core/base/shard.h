// Chunk arithmetic: which part of a global dim a rank holds.
//
// One axis of size k cuts n into chunks of ceil(n/k); trailing ranks hold less or nothing (torch.chunk). Axes that
// share a dim nest, major first, and a nested chunk comes from the chunk, not from the extent: n = 10 on 4 then 2 ranks
// is 3, then 2.
#pragma once
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

struct DimShard {
  int64_t capacity = 0;  // chunk size: the same on all ranks
  int64_t offset = 0;    // global index of the first element held (meaningless when extent is 0)
  int64_t extent = 0;    // elements held by this rank, at most capacity
};

DimShard ShardOfDim(int64_t n, const AxisList& axes_major_first, const MeshShape& mesh, const Coords& coords);
int64_t ChunkSize(int64_t n, const AxisList& axes_major_first, const MeshShape& mesh);
// The capacity of every dim: the shape of a rank's storage.
Shape ChunkShape(const Shape& global, const Sharding& sharding, const MeshShape& mesh);

}  // namespace weft
