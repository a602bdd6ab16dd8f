// Helpers for tests of DTensor: in-process ranks with a mesh, kernels and an eager scope.
#pragma once
#include <functional>
#include <vector>

#include "parallel/testing.h"
#include "weft/core/base/shard.h"
#include "weft/dist/group/collectives.h"
#include "weft/dist/group/local/local_group.h"
#include "weft/dist/group/mesh.h"
#include "weft/kernels/cpu/backend/register.h"
#include "weft/parallel/dtensor/eager_scope.h"
#include "weft/parallel/dtensor/resized.h"

namespace weft::test {

// Returns the part of the tensor that this rank holds, without padding. On Partial axes it is one term.
inline Tensor LocalOf(const Tensor& global, const Sharding& s, const DeviceMesh& mesh) {
  Shape extents;
  for (size_t d = 0; d < global.shape().size(); d++)
    extents.push_back(ShardOfDim(global.shape()[d], s.DimAxes(int(d)), mesh.shape(), mesh.coords()).extent);
  return Resized(Chunk(global, s, mesh.shape(), mesh.coords()), extents);
}

struct Rank {
  Context& context;
  DeviceMesh& mesh;
};
using Body = std::function<void(Rank)>;

inline void OnBareMesh(const std::vector<int>& sizes, const Body& body) {
  MeshShape shape = MeshOf(sizes);
  weft::RunRanks(shape.num_ranks(), [&](Context& context, GroupFactory& groups) {
    RegisterCpuKernels(context.kernels(DeviceKind::kCpu));
    RegisterCollectives(context.kernels(DeviceKind::kCpu), DeviceKind::kCpu);
    DeviceMesh mesh(context, groups, shape);
    body({context, mesh});
  });
}
inline void OnMesh(const std::vector<int>& sizes, const Body& body) {
  OnBareMesh(sizes, [&](Rank rank) {
    EagerScope eager(rank.context, rank.mesh, {.seed = 5});
    body(rank);
  });
}

}  // namespace weft::test
