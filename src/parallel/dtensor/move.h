// Moves between meshes: a tensor from one mesh to another, which may have other ranks, another shape or another device.
//
//   DTensor y = Redistribute(x, all, some, {Shard(0)}, all.World());
//
// Every element is sent by the one rank that owns it, as boxes: what a checkpoint's files are to the ranks that load
// it, the ranks of the first mesh are here.
#pragma once
#include <vector>

#include "weft/parallel/dtensor/dtensor.h"

namespace weft {

// Where a global tensor is.
struct MeshLayout {
  MeshShape mesh;
  std::vector<int> ranks;  // of the world, in the order of the mesh
  Sharding sharding;       // without Partial
};
struct GlobalTensor {
  DType dtype;
  Shape shape;
};

// What this rank stores of the tensor where it is moved to, padded to the chunk size, on `device`; an undefined Tensor
// where it is none of those ranks. `local` is what it stores of it now, on any device; it is not read on ranks outside
// of `from`. Called by all ranks of the group, which is of the CPU and holds the ranks of both layouts.
Tensor MoveTensor(const Tensor& local, const GlobalTensor& tensor, const MeshLayout& from, const MeshLayout& to,
                  ProcessGroup& group, DeviceRuntime& device, Loc loc = Loc::current());

// The value of x on another mesh, without its history. x is empty on ranks outside of `from`, and the result on those
// outside of `to`; the others have an EagerScope of `to` open. Partial sums are completed on the way, so that any
// placement leads to any other. Called by all ranks of the group, which holds the ranks of both meshes.
DTensor Redistribute(const DTensor& x, DeviceMesh& from, DeviceMesh& to, const Placements& placements,
                     ProcessGroup& group, Loc loc = Loc::current());

}  // namespace weft
