// Moves tensors between meshes. The target mesh may have other ranks, another shape and another device.
//
//   DTensor y = Redistribute(x, all, some, {Shard(0)}, all.World());
//
// Each element is sent by the one rank that owns it. Elements travel as boxes, as between the files of a checkpoint and
// the ranks that load it.
#pragma once
#include <vector>

#include "weft/parallel/dtensor/dtensor.h"

namespace weft {

// The layout of a global tensor: its mesh, the ranks of the mesh, and its placements.
struct MeshLayout {
  MeshShape mesh;
  std::vector<int> ranks;  // ranks of the world, in mesh order
  Sharding sharding;       // without Partial
};
struct GlobalTensor {
  DType dtype;
  Shape shape;
};

// Moves a tensor from layout `from` to layout `to`. Returns this rank's chunk in `to`, padded to the chunk size, on
// `device`. Returns an undefined Tensor on ranks outside `to`. `local` is this rank's chunk in `from`, on any device;
// it is not read on ranks outside `from`. All ranks of the group must call it. The group must be a CPU group. Throws
// Error if the group lacks a rank of a layout, or if a layout has Partial placements.
Tensor MoveTensor(const Tensor& local, const GlobalTensor& tensor, const MeshLayout& from, const MeshLayout& to,
                  ProcessGroup& group, DeviceRuntime& device, Loc loc = Loc::current());

// Returns x on another mesh, without its history. x must be empty on ranks outside `from`. The result is empty on ranks
// outside `to`. Ranks of `to` must have an EagerScope of `to` open. Partial values are reduced on the way, so every
// placement can become every other. All ranks of the group must call it. Throws Error if the group lacks a rank of a
// mesh.
DTensor Redistribute(const DTensor& x, DeviceMesh& from, DeviceMesh& to, const Placements& placements,
                     ProcessGroup& group, Loc loc = Loc::current());

}  // namespace weft
