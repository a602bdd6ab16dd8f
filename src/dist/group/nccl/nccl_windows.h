// NCCL windows: memory from which and into which gathers go by copy engines (nccl_copies.h).
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "weft/dist/group/mesh.h"

namespace weft {

struct WindowRequest {
  std::span<const int> axes;  // of the mesh, over which gathers go by copy engines
  size_t bytes = 0;           // of memory
  uint64_t layout = 0;        // a hash of the offsets of all gathers in the memory
};

// Returns such memory of the GPU. Its unused memory is given back first. Collective over the mesh: all ranks succeed,
// or all return the fault of the first rank that has one, among them a layout that differs between ranks. The groups of
// these axes must outlive the memory. Free it when no call that uses it is running; after a failure it is left to the
// end of the process, because other ranks may still write to it.
absl::StatusOr<BufferPtr> AllocateWindows(DeviceMesh& mesh, const WindowRequest& request);

}  // namespace weft
