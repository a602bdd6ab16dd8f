// GemmUse: limits how many threads multiply at a time, and makes sure that OpenBLAS has a buffer for each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::cpu {

inline constexpr size_t kGemmBuffer = size_t(128) << 20;  // address space per buffer; a product uses a few MiB of it
inline constexpr int64_t kMaxGemmThreads = 128;           // buffers that an OpenBLAS built for 64 threads can track

// While a GemmUse lives, up to `threads` (at most kMaxGemmThreads) threads may call Gemm. The constructor waits until
// other uses leave enough room. Throws Error with the sizes if the buffers cannot be mapped, because OpenBLAS itself
// would retry forever.
class GemmUse {
 public:
  explicit GemmUse(int64_t threads);
  ~GemmUse();
  GemmUse(const GemmUse&) = delete;
  GemmUse& operator=(const GemmUse&) = delete;

 private:
  int64_t threads_;
};

}  // namespace weft::cpu
