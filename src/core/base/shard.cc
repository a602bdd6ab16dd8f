#include "weft/core/base/shard.h"

#include <algorithm>

namespace weft {

DimShard ShardOfDim(int64_t n, const AxisList& axes, const MeshShape& mesh, const Coords& coords) {
  int64_t chunk = n, begin = 0, end = n;
  for (int axis : axes) {
    int64_t k = mesh.sizes[size_t(axis)];
    chunk = (chunk + k - 1) / k;
    begin = std::min(begin + coords[size_t(axis)] * chunk, end);
    end = std::min(begin + chunk, end);
  }
  return {chunk, begin, end - begin};
}

int64_t ChunkSize(int64_t n, const AxisList& axes, const MeshShape& mesh) {
  for (int axis : axes) n = (n + mesh.sizes[size_t(axis)] - 1) / mesh.sizes[size_t(axis)];
  return n;
}

Shape ChunkShape(const Shape& global, const Sharding& sharding, const MeshShape& mesh) {
  Shape shape = global;
  for (int d = 0; d < int(shape.size()); d++)
    shape[size_t(d)] = ChunkSize(global[size_t(d)], sharding.DimAxes(d), mesh);
  return shape;
}

}  // namespace weft
