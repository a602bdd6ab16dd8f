// NCCL memory: the GPU memory that NCCL's communicators and windows use.
#pragma once
#include <algorithm>
#include <cstddef>
#include <cstdint>

#include "weft/core/base/mesh_shape.h"
#include "weft/core/host/rounding.h"
#include "weft/dist/group/nccl/nccl_api.h"

namespace weft {

// Bytes per rank: of the communicator of all ranks, which exists as soon as the mesh does, and of one communicator per
// axis of several ranks, with the channels that NCCL 2.28 opens on H200s (measured: tests/bench/ladder, startup).
inline constexpr int64_t kNcclMeetingBytes = int64_t(388) << 20, kNcclLaneBytes = int64_t(670) << 20;
inline int64_t NcclBytes(const MeshShape& mesh) {
  int64_t lanes = std::count_if(mesh.sizes.begin(), mesh.sizes.end(), [](int size) { return size > 1; });
  return lanes > 0 ? kNcclMeetingBytes + lanes * kNcclLaneBytes : 0;
}

// The communicator of an axis whose gathers go by copy engines, and its limit. It opens channels only if NCCL makes
// gathers by kernels after all. The bytes are those of a communicator of kernels with as many CTAs, a bound from above:
// the communicator itself has not been measured.
inline constexpr int kNcclCopyCtas = 8;
inline constexpr int64_t kNcclCopyBytes = int64_t(150) << 20;

// What NCCL 2.28 allocates for the symmetric kernels of a communicator (ncclSymkInitOnce): a slot of 16 bytes for each
// rank, twice, and each of 512 threads of 64 blocks, and barriers.
constexpr int64_t NcclSymmetricBytes(int ranks) {
  constexpr int64_t kBlocks = 64, kThreads = 512, kSlot = 16, kUnit = int64_t(2) << 20;
  return (kBlocks * (1 + 2 * ranks * kThreads) * kSlot + kUnit) / kUnit * kUnit;
}

// Memory for `bytes` and a staging area per axis, as ncclMemAlloc rounds it up. WindowOffset is that of the staging
// area of axis `index` among those axes.
inline constexpr size_t kNcclStaging = size_t(4) << 20, kNcclGranularity = size_t(2) << 20;
constexpr size_t WindowOffset(size_t bytes, size_t index) {
  return RoundUpBytes(bytes, nccl::kWindowAlign) + index * kNcclStaging;
}
constexpr size_t WindowBytes(size_t bytes, size_t axes) {
  return RoundUpBytes(WindowOffset(bytes, axes), kNcclGranularity);
}

}  // namespace weft
