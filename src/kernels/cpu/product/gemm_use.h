// GemmUse: bounds how many threads multiply at a time, and makes sure that OpenBLAS has a buffer for each.
#pragma once
#include <cstddef>
#include <cstdint>

namespace weft::cpu {

inline constexpr size_t kGemmBuffer = size_t(128) << 20;  // address space of a buffer; a product uses a few MiB of it
inline constexpr int64_t kMaxGemmThreads = 128;           // buffers that OpenBLAS of 64 threads keeps track of

// While it lives, up to `threads` (at most kMaxGemmThreads) threads may call Gemm. Waits while other uses leave no
// room. Throws Error with numbers when the buffers cannot be mapped: OpenBLAS itself would try again for ever.
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
