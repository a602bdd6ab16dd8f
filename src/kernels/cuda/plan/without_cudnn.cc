// For builds whose CUDA library was built without the headers of cudnn-frontend.
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {

bool HasCudnnAttention() { return false; }

}  // namespace weft::cuda
