// The CUDA backend is a shared library, opened when a CUDA device is asked for: linked in, it would cost every CPU run
// its start-up time and memory.
#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/core/runtime/context.h"

namespace weft {

// Does this host have NVIDIA's driver? Not by its file under /proc: containers do without.
bool HasCudaDriver();

// Of each GPU of this host that this process sees, what tells it from all others. Errors as OpenCuda's.
absl::StatusOr<std::vector<std::string>> CudaGpus();
// Adds GPU number `index` of this host and the CUDA kernels to the context. Not found: the library is not there (a
// build without CUDA) or its libraries are missing. Failed precondition: there is no driver or GPU that it can use.
absl::Status OpenCuda(Context& context, int index);
// The kernels alone, to plan with on a host that has no GPU.
absl::Status OpenCudaKernels(KernelTable& table);

}  // namespace weft
