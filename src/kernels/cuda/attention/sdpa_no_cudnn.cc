// The cudnn backend of attention in builds that did not find the headers of cudnn-frontend. It refuses every call.
#include "weft/kernels/cuda/attention/sdpa_choice.h"
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {

constinit const SdpaBackend kCudnnSdpa{"cudnn", CudnnRefusesShape, CudnnExpectedWorkspace};

}  // namespace weft::cuda
