#include "weft/core/base/shard.h"

#include <algorithm>

#include "weft/core/host/rounding.h"

namespace weft {

DimShard CutShard(const DimShard& of, int64_t k, int64_t coordinate) {
  int64_t chunk = CeilDiv(of.capacity, k), end = of.offset + of.extent;
  int64_t begin = std::min(of.offset + coordinate * chunk, end);
  return {chunk, begin, std::min(chunk, end - begin)};
}

DimShard ShardOfDim(int64_t n, const AxisList& axes, const MeshShape& mesh, const Coords& coords) {
  DimShard shard{n, 0, n};
  for (int axis : axes) shard = CutShard(shard, mesh.sizes[size_t(axis)], coords[size_t(axis)]);
  return shard;
}

int64_t ChunkSize(int64_t n, const AxisList& axes, const MeshShape& mesh) {
  for (int axis : axes) n = CeilDiv(n, mesh.sizes[size_t(axis)]);
  return n;
}

Shape ChunkShape(const Shape& global, const Sharding& sharding, const MeshShape& mesh) {
  Shape shape = global;
  ForEachShard(sharding, [&](int axis, int d) {
    if (size_t(d) >= shape.size()) return;  // the ops refuse such a placement
    int64_t k = mesh.sizes[size_t(axis)];
    shape[size_t(d)] = CeilDiv(shape[size_t(d)], k);
  });
  return shape;
}

}  // namespace weft
