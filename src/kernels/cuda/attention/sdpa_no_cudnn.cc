// The cudnn backend of attention in builds that did not find the headers of cudnn-frontend. It refuses every call.
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {

constinit const SdpaKernels kCudnnSdpa{SdpaBackend::kCudnn, CudnnRefusesShape, CudnnExpectedWorkspace};

std::string CudnnVersion() { return "none"; }

}  // namespace weft::cuda
