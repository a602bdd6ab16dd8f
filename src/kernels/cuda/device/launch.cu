#include "weft/kernels/cuda/device/launch.cuh"

namespace weft::cuda {
namespace {

__global__ void Probe() { AwaitPrevious(); }

}  // namespace

// Kernels that the driver compiled from older PTX cannot.
bool KernelsCanWait() {
  cudaFuncAttributes attributes{};
  WEFT_CUDA(cudaFuncGetAttributes(&attributes, &Probe));
  return attributes.ptxVersion >= 90;
}

}  // namespace weft::cuda
