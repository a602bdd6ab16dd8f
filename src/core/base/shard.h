// Chunk arithmetic: which part of a global dim a rank holds.
//
// One axis of size k cuts n into chunks of ceil(n/k); trailing ranks hold less or nothing (torch.chunk). Axes that
// share a dim nest, major axis first. A nested chunk size is computed from the outer chunk size, not from the outer
// extent: n = 10 on 4 and then 2 ranks gives chunks of 3 and then 2.
#pragma once
#include "weft/core/base/placement.h"
#include "weft/core/base/shape.h"

namespace weft {

struct DimShard {
  int64_t capacity = 0;  // chunk size, equal on all ranks
  int64_t offset = 0;    // global index of the first element held; meaningless if extent is 0
  int64_t extent = 0;    // elements held by this rank, at most capacity
};

// Returns the part of `of`, which is a whole dim or a chunk of it, on one coordinate of an axis with k ranks.
DimShard CutShard(const DimShard& of, int64_t k, int64_t coordinate);
DimShard ShardOfDim(int64_t n, const AxisList& axes_major_first, const MeshShape& mesh, const Coords& coords);
int64_t ChunkSize(int64_t n, const AxisList& axes_major_first, const MeshShape& mesh);
// Returns the capacity of every dim, which is the shape of a rank's storage.
Shape ChunkShape(const Shape& global, const Sharding& sharding, const MeshShape& mesh);

}  // namespace weft
