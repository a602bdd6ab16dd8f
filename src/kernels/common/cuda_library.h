// The CUDA backend is a shared library that is opened when a CUDA device is requested. Linking it would add its
// start-up time and memory to every CPU run.
#pragma once
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "weft/core/runtime/context.h"

namespace weft {

// Returns whether NVIDIA's driver library can be opened. Does not look for the driver under /proc, because containers
// may lack that entry.
bool HasCudaDriver();

// Returns one identifier per GPU of this host that this process sees. The identifiers of any two GPUs differ. Fails as
// OpenCuda does.
absl::StatusOr<std::vector<std::string>> CudaGpus();
// Adds GPU number `index` of this host and the CUDA kernels to the context. Errors:
// - NotFound: the CUDA library is missing (a build without CUDA), or a library that it needs is missing.
// - FailedPrecondition: there is no driver or no GPU that it can use.
absl::Status OpenCuda(Context& context, int index);
// Adds only the kernels, to plan with on a host without a GPU.
absl::Status OpenCudaKernels(KernelTable& table);

}  // namespace weft
