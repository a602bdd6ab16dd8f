// RunWithWorkspace: one call of a kernel, with a workspace that lives as long as the call.
#pragma once
#include "absl/functional/function_ref.h"
#include "weft/core/base/buffer.h"
#include "weft/core/runtime/kernel.h"

namespace weft {

// Takes the workspace from `allocate`, which is not called if the kernel needs none.
inline void RunWithWorkspace(const KernelRow& row, KernelCall call,
                             absl::FunctionRef<BufferPtr(size_t bytes)> allocate) {
  BufferPtr workspace;
  if (row.workspace) call.workspace_bytes = row.workspace(call);
  if (call.workspace_bytes) {
    workspace = allocate(call.workspace_bytes);
    call.workspace = workspace->data();
  }
  row.run(call);
}

}  // namespace weft
