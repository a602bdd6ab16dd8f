#include "weft/kernels/cuda/device/counter.h"

#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

__global__ void Count(uint64_t* count, volatile uint64_t* seen, uint64_t more) { *seen = *count += more; }

}  // namespace

// The first Add loads the kernel, because a kernel cannot be loaded during a recording.
CudaCounter::CudaCounter(CudaDevice& device)
    : device_(device), count_(device.Allocate(sizeof(uint64_t))), seen_(device.AllocateStaging(sizeof(uint64_t))) {
  *static_cast<uint64_t*>(seen_->data()) = 0;
  device.Fill(count_->data(), 0, sizeof(uint64_t));
  Add(0);
  device.Synchronize();  // other streams may count next
}

void CudaCounter::Add(uint64_t more) {
  auto* count = static_cast<uint64_t*>(count_->data());
  auto* seen = static_cast<uint64_t*>(seen_->data());
  Count<<<1, 1, 0, device_.stream()>>>(count, seen, more);
  WEFT_CUDA_LAUNCHED("Count");
}

uint64_t CudaCounter::Value() const {
  return __atomic_load_n(static_cast<const uint64_t*>(seen_->data()), __ATOMIC_ACQUIRE);
}

}  // namespace weft::cuda
