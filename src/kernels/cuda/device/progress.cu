#include "weft/kernels/cuda/device/progress.h"

#include <algorithm>

#include "weft/kernels/cuda/device/branches.h"
#include "weft/kernels/cuda/device/device.h"

namespace weft::cuda {
namespace {

// One store writes both sums, so the host never sees more ended calls than begun ones.
__global__ void Count(ulonglong2* sums, ulonglong2* seen, uint64_t begun, uint64_t ended) {
  ulonglong2 now = *sums;
  now.x += begun;
  now.y += ended;
  *sums = now;
  asm volatile("st.volatile.global.v2.u64 [%0], {%1, %2};" ::"l"(seen), "l"(now.x), "l"(now.y) : "memory");
}

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
CudaProgress::CudaProgress(CudaDevice& device)
    : device_(device),
      sums_(device.Allocate(2 * sizeof(uint64_t))),
      seen_(device.AllocateStaging(2 * sizeof(uint64_t))),
      draws_(device.Allocate(sizeof(uint64_t))) {
  WEFT_CUDA(cudaStreamCreateWithFlags(&branch_, cudaStreamNonBlocking));
  std::fill_n(static_cast<uint64_t*>(seen_->data()), 2, 0);
  device.Fill(sums_->data(), 0, sums_->bytes());
  device.Fill(draws_->data(), 0, draws_->bytes());
  Add(0, 0);
  Linger({});
  device.Synchronize();  // other streams may count next
}

CudaProgress::~CudaProgress() { cudaStreamDestroy(branch_); }

void CudaProgress::Add(uint64_t begun, uint64_t ended) {
  auto* sums = static_cast<ulonglong2*>(sums_->data());
  auto* seen = static_cast<ulonglong2*>(seen_->data());
  Count<<<1, 1, 0, device_.Kept<Branches>().BranchOff(branch_)>>>(sums, seen, begun, ended);
  WEFT_CUDA_LAUNCHED("Count");
}

void CudaProgress::Linger(std::chrono::microseconds most) {
  auto seed = uint64_t(std::chrono::steady_clock::now().time_since_epoch().count());
  Pause<<<1, 1, 0, device_.stream()>>>(static_cast<uint64_t*>(draws_->data()), seed,
                                       uint64_t(std::chrono::nanoseconds(most).count()));
  WEFT_CUDA_LAUNCHED("Pause");
}

uint64_t CudaProgress::Seen(int which) const {
  return __atomic_load_n(static_cast<const uint64_t*>(seen_->data()) + which, __ATOMIC_ACQUIRE);
}

}  // namespace weft::cuda
