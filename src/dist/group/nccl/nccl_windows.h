// NCCL windows: memory that ranks of an axis map into each other, so that calls read and write it directly.
//
// Gathers and exchanges whose operands are in it can go by copy engines (nccl_copies.h). All-gathers, and sums of
// floats of 32 bits or less, whose operands are both in it, can go by NCCL's symmetric kernels. Those load from and
// store to the other ranks' memory, and add all ranks' terms in f32. By NCCL's own model they take fewer blocks than
// its rings.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>

#include "absl/status/statusor.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// The hardware that makes calls over a mesh axis whose operands are in this memory. If an axis has both uses, copy
// engines make its gathers and exchanges, and kernels its sums.
enum class WindowEngine : uint8_t { kCopies, kKernels };
struct WindowUse {
  int axis = 0;
  WindowEngine engine = WindowEngine::kCopies;
};

struct WindowRequest {
  std::span<const WindowUse> uses;
  size_t bytes = 0;     // of memory
  uint64_t layout = 0;  // a hash of the offsets of all these calls in the memory
};

// Returns such memory of the GPU. Its unused memory is given back first. Collective over the mesh: all ranks succeed,
// or all return the fault of the first rank that has one, among them a layout that differs between ranks. The groups of
// these axes must outlive the memory. Free it when no call that uses it is running; after a failure it is left to the
// end of the process, because other ranks may still write to it.
absl::StatusOr<BufferPtr> AllocateWindows(DeviceMesh& mesh, const WindowRequest& request);
// Returns an error for users: the keys that asked for the windows, the fault, and the values that do without.
std::string WindowFault(std::span<const WindowUse> uses, const absl::Status& fault);

}  // namespace weft
