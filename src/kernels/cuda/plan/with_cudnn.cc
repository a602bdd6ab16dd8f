// For builds whose CUDA library has cuDNN's attention, and for builds without a CUDA library.
#include "weft/kernels/cuda/plan/cudnn_sizes.h"

namespace weft::cuda {

bool HasCudnnAttention() { return true; }

}  // namespace weft::cuda
