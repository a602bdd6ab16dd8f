// NCCL memory: the GPU memory that NCCL's communicators use.
#pragma once
#include <algorithm>
#include <cstdint>

#include "weft/core/base/mesh_shape.h"

namespace weft {

// Bytes per rank: of the communicator of all ranks, which exists as soon as the mesh does, and of one communicator per
// axis of several ranks, with the channels that NCCL 2.28 opens on H200s (measured: tests/bench/ladder, startup).
inline constexpr int64_t kNcclMeetingBytes = int64_t(388) << 20, kNcclLaneBytes = int64_t(670) << 20;
inline int64_t NcclBytes(const MeshShape& mesh) {
  int64_t lanes = std::count_if(mesh.sizes.begin(), mesh.sizes.end(), [](int size) { return size > 1; });
  return lanes > 0 ? kNcclMeetingBytes + lanes * kNcclLaneBytes : 0;
}

}  // namespace weft
