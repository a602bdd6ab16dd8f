#include "weft/kernels/cuda/device/branches.h"

#include <utility>

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {

Branches::Branches(CudaDevice& device) : device_(device) {
  WEFT_CUDA(cudaEventCreateWithFlags(&fork_, cudaEventDisableTiming));
}
Branches::~Branches() { cudaEventDestroy(fork_); }

cudaStream_t Branches::BranchOff(cudaStream_t branch) {
  cudaStreamCaptureStatus status = cudaStreamCaptureStatusNone;
  WEFT_CUDA(cudaStreamIsCapturing(device_.stream(), &status));
  if (status == cudaStreamCaptureStatusNone) return device_.stream();
  WEFT_CUDA(cudaEventRecord(fork_, device_.stream()));
  WEFT_CUDA(cudaStreamWaitEvent(branch, fork_));
  used_.insert(branch);
  return branch;
}

void Branches::Join() {
  for (cudaStream_t branch : std::exchange(used_, {})) {
    WEFT_CUDA(cudaEventRecord(fork_, branch));
    WEFT_CUDA(cudaStreamWaitEvent(device_.stream(), fork_));
  }
}

}  // namespace weft::cuda
