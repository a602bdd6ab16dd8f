#include "weft/kernels/cuda/device/counter.h"

#include "weft/kernels/cuda/device/branches.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

__global__ void Count(uint64_t* count, volatile uint64_t* seen, uint64_t more) { *seen = *count += more; }

// A time in ns below `most` for each draw: the high bits of a product with 2^64 divided by the golden ratio.
__global__ void Pause(uint64_t* draws, uint64_t seed, uint64_t most) {
  uint64_t begin, now, bits = (++*draws + seed) * 0x9E3779B97F4A7C15u;
  bits = (bits ^ (bits >> 29)) * 0xBF58476D1CE4E5B9u;
  uint64_t wait = __umul64hi(bits ^ (bits >> 32), most);
  asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(begin));
  do asm volatile("mov.u64 %0, %%globaltimer;" : "=l"(now));
  while (now - begin < wait);
}

}  // namespace

// The first calls load the kernels, because a kernel cannot be loaded during a recording.
CudaCounter::CudaCounter(CudaDevice& device)
    : device_(device),
      count_(device.Allocate(sizeof(uint64_t))),
      seen_(device.AllocateStaging(sizeof(uint64_t))),
      draws_(device.Allocate(sizeof(uint64_t))) {
  WEFT_CUDA(cudaStreamCreateWithFlags(&branch_, cudaStreamNonBlocking));
  *static_cast<uint64_t*>(seen_->data()) = 0;
  device.Fill(count_->data(), 0, sizeof(uint64_t));
  device.Fill(draws_->data(), 0, sizeof(uint64_t));
  Add(0);
  Linger({});
  device.Synchronize();  // other streams may count next
}

CudaCounter::~CudaCounter() { cudaStreamDestroy(branch_); }

void CudaCounter::Add(uint64_t more) {
  auto* count = static_cast<uint64_t*>(count_->data());
  auto* seen = static_cast<uint64_t*>(seen_->data());
  Count<<<1, 1, 0, device_.Kept<Branches>().BranchOff(branch_)>>>(count, seen, more);
  WEFT_CUDA_LAUNCHED("Count");
}

void CudaCounter::Linger(std::chrono::microseconds most) {
  auto seed = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  Pause<<<1, 1, 0, device_.stream()>>>(static_cast<uint64_t*>(draws_->data()), seed,
                                       uint64_t(std::chrono::nanoseconds(most).count()));
  WEFT_CUDA_LAUNCHED("Pause");
}

uint64_t CudaCounter::Value() const {
  return __atomic_load_n(static_cast<const uint64_t*>(seen_->data()), __ATOMIC_ACQUIRE);
}

}  // namespace weft::cuda
