// NCCL windows: memory that ranks of an axis map into each other, so that calls read and write it directly.
//
// Gathers whose operands are in it can go by copy engines (nccl_copies.h). Other calls can go by NCCL's symmetric
// kernels: all-gathers, and sums of floats of 32 bits or less, whose operands are both in it. Those load from and store
// to the other ranks' memory, which takes fewer blocks than NCCL's rings, and add all ranks' terms in f32.
#pragma once
#include <cstddef>
#include <cstdint>
#include <span>

#include "absl/status/statusor.h"
#include "weft/dist/group/mesh.h"

namespace weft {

// What makes calls in the memory that are over an axis of the mesh: copy engines its gathers, or kernels all calls that
// copy engines do not make.
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

}  // namespace weft
