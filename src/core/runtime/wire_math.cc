#include "weft/core/runtime/wire_math.h"

#include <fmt/format.h>

#include <algorithm>

#include "weft/core/base/error.h"

namespace weft {
namespace {

constexpr int64_t kBlock = 1024;  // elements added at a time; their sums fit in the L1 cache

template <class T>
void SumAs(T* to, const BF16* chunks, int64_t num_chunks, int64_t count) {
  float sums[kBlock];
  for (int64_t begin = 0; begin < count; begin += kBlock) {
    int64_t n = std::min(kBlock, count - begin);
    for (int64_t i = 0; i < n; i++) sums[i] = float(chunks[begin + i]);
    for (int64_t c = 1; c < num_chunks; c++) {
      const BF16* terms = chunks + c * count + begin;
      for (int64_t i = 0; i < n; i++) sums[i] += float(terms[i]);
    }
    for (int64_t i = 0; i < n; i++) to[begin + i] = T(sums[i]);
  }
}

}  // namespace

void NarrowOnHost(BF16* to, const float* from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = BF16(from[i]);
}

void WidenOnHost(float* to, const BF16* from, int64_t count) {
  for (int64_t i = 0; i < count; i++) to[i] = float(from[i]);
}

void SumChunksOnHost(void* to, DType dtype, const BF16* chunks, int64_t num_chunks, int64_t count) {
  if (dtype == DType::kF32) return SumAs(static_cast<float*>(to), chunks, num_chunks, count);
  WEFT_CHECK(dtype == DType::kBF16, fmt::format("sum of bf16 chunks: expected f32 or bf16, got {}", Name(dtype)));
  SumAs(static_cast<BF16*>(to), chunks, num_chunks, count);
}

}  // namespace weft
